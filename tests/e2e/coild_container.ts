// The container that coild of a node runs in.
import type { ClusterNode } from "../lab/cluster/mod.ts";
import { eventually } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";

/** The container's state, as its pod's status has it. */
async function statusOf(site: Installation, node: ClusterNode) {
  const pods = await site.pods.list({
    namespace: "kube-system",
    labelSelector: "app.kubernetes.io/component=coild",
  });
  const pod = pods.find(({ spec }) => spec?.nodeName === node.name);
  return pod?.status?.containerStatuses?.[0];
}

/** Sends SIGKILL to coild of a node and returns what waits for its successor. */
export async function killCoild(
  site: Installation,
  node: ClusterNode,
): Promise<{ readonly replaced: () => Promise<void> }> {
  const { containerID } = await statusOf(site, node) ?? {};
  if (containerID === undefined) {
    throw new Error(`Cannot kill coild of "${node.name}": it does not run`);
  }
  const id = containerID.replace("containerd://", "");
  await node.run("ctr", ["-n", "k8s.io", "tasks", "kill", "-s", "9", id]);
  const replaced = async () => {
    await eventually(`another coild on ${node.name}`, async () => {
      const now = await statusOf(site, node);
      return now?.ready === true && now.containerID !== containerID;
    }, { timeoutMs: 300_000, intervalMs: 500 });
  };
  return { replaced };
}
