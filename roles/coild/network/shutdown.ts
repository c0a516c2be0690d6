import { withTimeout } from "../../../lib/async/mod.ts";
import type { RouteSink } from "../../../lib/ipam/mod.ts";
import { type KubeClient, NODES } from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { NodeSource } from "../cluster/node_source.ts";

const log = getLogger("route-exporter");

/** How long the API server may take to say whether the Node is still there. */
const NODE_CHECK_MS = 10_000;

/**
 * Stops announcing this node's blocks when its Node object is gone: anyone who
 * gets them next must not compete with us. When the Node is there, or it is
 * unknown, the routes stay, and the pods stay reachable during a restart.
 * Without an answer counts what the watch saw: with the Node goes the pod of
 * coild, and with that its token, so that the API server refuses the question.
 */
export async function clearRoutesIfNodeGone(
  client: KubeClient,
  { node, routes }: {
    readonly node: Pick<NodeSource, "name" | "seenDeleted">;
    readonly routes: RouteSink;
  },
): Promise<void> {
  const { name } = node;
  try {
    if (await nodeExists(client, node)) return;
    await routes.sync([]);
    log.info("Emptied the export table: the Node object is gone", {
      node: name,
    });
  } catch (err) {
    log.warn(
      "Kept the export table: cannot check whether the Node was deleted",
      { node: name, err },
    );
  }
}

async function nodeExists(
  client: KubeClient,
  node: Pick<NodeSource, "name" | "seenDeleted">,
): Promise<boolean> {
  const { name } = node;
  try {
    const found = await withTimeout(
      NODE_CHECK_MS,
      (signal) => client.tryGet(NODES, { name, signal }),
    );
    return found !== undefined;
  } catch (error) {
    if (node.seenDeleted) return false;
    throw error;
  }
}
