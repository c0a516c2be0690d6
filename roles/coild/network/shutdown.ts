import { withTimeout } from "../../../lib/async/mod.ts";
import type { RouteSink } from "../../../lib/ipam/mod.ts";
import { type KubeClient, NODES } from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("route-exporter");

/** How long the API server may take to say whether the Node is still there. */
const NODE_CHECK_MS = 10_000;

/**
 * Stops announcing this node's blocks when its Node object is gone: anyone who
 * gets them next must not compete with us. When the Node is there, or nobody
 * can tell, the routes stay, and the pods stay reachable during a restart.
 */
export async function clearRoutesIfNodeGone(
  client: KubeClient,
  options: { readonly nodeName: string; readonly routes: RouteSink },
): Promise<void> {
  const { nodeName: name, routes } = options;
  try {
    const node = await withTimeout(
      NODE_CHECK_MS,
      (signal) => client.tryGet(NODES, { name, signal }),
    );
    if (node !== undefined) return;
    await routes.sync([]);
    log.info("Emptied the export table: the Node object is gone", {
      node: name,
    });
  } catch (error) {
    log.warn(
      "Kept the export table: cannot check whether the Node was deleted",
      {
        node: name,
        err: error,
      },
    );
  }
}
