import { CLUSTER_FLAGS, type IntFlag } from "../../../lib/flags/mod.ts";

/** Flags that say which cluster a command reads, and in what portions. */
export const CONNECTION_FLAGS: typeof CLUSTER_FLAGS & {
  readonly "page-size": IntFlag;
} = {
  "page-size": {
    type: "int",
    default: 500,
    min: 1,
    max: 100_000,
    help: "Objects per API request",
  },
  ...CLUSTER_FLAGS,
};

/** The command that lists pools, for completion. */
export const POOL_NAMES = "ipam show pools --no-headers";
