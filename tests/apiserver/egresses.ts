import type { ControlPlane } from "../lab/mod.ts";
import { patchStatus } from "./patch_status.ts";

/** A gateway pod, as its status shows it. */
export interface GatewayPod {
  readonly node: string;
  readonly address: string;
  readonly isReady: boolean;
}

/** Creates an Egress of namespace `nat`, and what coil-controller makes for it: the slice of its clients and its gateways. */
export async function addEgress(
  plane: ControlPlane,
  name: string,
  { clients, gateways, since = new Date() }: {
    readonly clients: readonly object[];
    readonly gateways: readonly GatewayPod[];
    /** When the gateways have started. */
    readonly since?: Date;
  },
): Promise<void> {
  const namespace = "nat";
  const labels = {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": "egress",
    "app.kubernetes.io/instance": name,
  };
  await plane.apply(
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { namespace, name },
      spec: {
        destinations: ["0.0.0.0/0"],
        template: { spec: { containers: [{ name: "egress" }] } },
      },
    },
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "EgressClientSlice",
      metadata: { namespace, name: `${name}-0`, labels },
      clients,
    },
  );
  for (const [i, { node, address, isReady }] of gateways.entries()) {
    const pod = `${name}-${i}`;
    await plane.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace, name: pod, labels },
      spec: {
        nodeName: node,
        containers: [{ name: "egress", image: "example.com/coil" }],
      },
    });
    await patchStatus(plane, `/api/v1/namespaces/${namespace}/pods/${pod}`, {
      phase: "Running",
      startTime: since.toISOString(),
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
      podIP: address,
      podIPs: [{ ip: address }],
    });
  }
}
