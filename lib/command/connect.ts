import { messageOf } from "../errors/mod.ts";
import type { ClusterValues } from "../flags/mod.ts";
import { KubeClient } from "../kube/mod.ts";
import { VERSION } from "../names/mod.ts";
import { CommandError } from "./errors.ts";

/** @throws {CommandError} when the configuration is missing or cannot be used; it may be broken in any way. */
export async function connect(
  { kubeconfig, context }: ClusterValues,
  { program = "coil", fieldManager }: {
    /** How the API server knows it. */
    readonly program?: string;
    /** Who writes, as the objects' managed fields name it. */
    readonly fieldManager?: string;
  } = {},
): Promise<KubeClient> {
  try {
    return await KubeClient.load({
      kubeconfig: kubeconfig || undefined,
      context: context || undefined,
      userAgent: `${program}/${VERSION}`,
      fieldManager,
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
