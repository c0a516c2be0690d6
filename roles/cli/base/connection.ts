import { messageOf } from "../../../lib/errors/mod.ts";
import {
  CLUSTER_FLAGS,
  type ClusterValues,
  type IntFlag,
} from "../../../lib/flags/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { VERSION } from "../../../lib/names/mod.ts";
import { CommandError } from "./errors.ts";

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

/** @throws {CommandError} when the configuration is missing or cannot be used; it may be broken in any way. */
export async function connect(
  { kubeconfig, context }: ClusterValues,
): Promise<KubeClient> {
  try {
    return await KubeClient.load({
      kubeconfig: kubeconfig || undefined,
      context: context || undefined,
      userAgent: `coil/${VERSION}`,
    });
  } catch (cause) {
    const file = kubeconfig || Deno.env.get("KUBECONFIG") || "";
    const which = file === "" ? "" : ` "${file}"`;
    throw new CommandError(
      `Cannot read the kubeconfig${which}: ${messageOf(cause)}`,
      { cause },
    );
  }
}
