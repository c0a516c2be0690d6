/** Clusters for tests of what is asked of nodes. */
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { Looker } from "../base/looker.ts";

function coildOn(node: string): object {
  return {
    metadata: {
      namespace: "kube-system",
      name: `coild-${node}`,
      labels: { "app.kubernetes.io/component": "coild" },
    },
    spec: { nodeName: node, containers: [{ name: "coild" }] },
  };
}

/** A cluster of these nodes, each with a coild. */
export function lookerOf(...nodes: readonly string[]): Looker {
  const transport = new FakeTransport(({ path }) => ({
    body: {
      metadata: {},
      items: path.includes("/nodes")
        ? nodes.map((name) => ({ metadata: { name } }))
        : nodes.map(coildOn),
    },
  }));
  return new Looker(new KubeClient(transport), 500);
}
