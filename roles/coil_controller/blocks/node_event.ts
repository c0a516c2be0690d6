import type { EventRecorder } from "../../../lib/kube/mod.ts";
import type { Cluster } from "../ipam/cluster.ts";

/** Records an Event about a Node, which may be gone. */
export function nodeEvent(
  { events }: { readonly events: EventRecorder },
  { nodes }: Pick<Cluster, "nodes">,
  { node: name, type = "Warning", reason, message }: {
    readonly node: string;
    readonly type?: "Normal" | "Warning";
    readonly reason: string;
    readonly message: string;
  },
): void {
  const uid = nodes.store.get(name)?.metadata?.uid ?? "";
  events.event({ apiVersion: "v1", kind: "Node", name, uid }, {
    type,
    reason,
    message,
  });
}
