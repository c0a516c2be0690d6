/** A pod of coild's on a node, as its DaemonSet makes it; `spec` has what differs. */
export function coildPod(
  { name, node }: { readonly name: string; readonly node: string },
  spec: object = {},
): object {
  return {
    metadata: {
      name,
      labels: {
        "app.kubernetes.io/name": "coil",
        "app.kubernetes.io/component": "coild",
      },
    },
    spec: {
      nodeName: node,
      hostNetwork: true,
      containers: [{ name: "coild", image: "none" }],
      ...spec,
    },
  };
}
