import {
  defineFlags,
  type FlagSpec,
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
  parseFlags,
  type ProgramInfo,
  servingFlags,
} from "../../lib/flags/mod.ts";
import { ROUTER_ADDRESSES, ROUTER_PROTOCOL } from "../../lib/names/mod.ts";

/** Names and defaults are upstream's. */
const FLAGS = defineFlags({
  ...servingFlags(ROUTER_ADDRESSES),
  "protocol-id": {
    type: "int",
    default: ROUTER_PROTOCOL,
    // Up to RTPROT_STATIC of <linux/rtnetlink.h>, 4, they are the kernel's and
    // the admin's: with those, the node's own routes would go as not ours.
    min: 5,
    max: 255,
    help: "Protocol number of coil-router's routes; must differ from coild's",
  },
  "update-interval": {
    type: "duration",
    default: 600_000,
    min: 1_000,
    help:
      "How often to check all routes even without changes: at least every 30 s, less often if checks take long",
  },
  ...LOGGING_FLAGS,
});

/** The flags of coil-router, for documentation and completion. */
export const ROUTER_FLAGS: FlagSpec = FLAGS;

export interface RouterOptions {
  readonly logging: LoggingChoice;
  readonly metricsAddress: string;
  readonly metricsAuth: boolean;
  readonly healthAddress: string;
  readonly protocolId: number;
  readonly updateIntervalMs: number;
}

/** Reads the command line; prints and exits on `--help` and mistakes. */
export function parseRouterFlags(
  args: readonly string[],
  info: ProgramInfo,
): RouterOptions {
  const { values, given } = parseFlags(FLAGS, args, info);
  return {
    logging: loggingChoice(values, given),
    metricsAddress: values["metrics-addr"],
    metricsAuth: values["metrics-auth"],
    healthAddress: values["health-addr"],
    protocolId: values["protocol-id"],
    updateIntervalMs: values["update-interval"],
  };
}
