// The objects that a gateway's figures need: an Egress and its many clients.
import { EGRESSES } from "../../../lib/api/mod.ts";
import { NAMESPACES, NODES, PODS, type V1Pod } from "../../../lib/kube/mod.ts";
import type { KubeClient } from "../../../lib/kube/mod.ts";
import { eventually } from "../../lab/wait.ts";
import type { AdminAccess } from "../../lab/admin_access.ts";
import { many } from "../many.ts";

/** The Egress, and the namespace of its clients. */
export const EGRESS = { namespace: "bench-nat", name: "internet" } as const;
const CLIENTS_NAMESPACE = "bench-clients";
const WIDTH = 16;

/** The node of all pods: one that exists, or they would be collected. */
export const POD_NODE = "bench-pods";

/** The Egress; returns when the controller has given gateways their rights. */
export async function createEgress(
  client: KubeClient,
  admin: AdminAccess,
): Promise<void> {
  for (const name of [EGRESS.namespace, CLIENTS_NAMESPACE]) {
    await client.patch(NAMESPACES, { name }, {}, { kind: "apply" });
    await eventually(`the service account of ${name}`, async () => {
      const path = `/api/v1/namespaces/${name}/serviceaccounts/default`;
      await admin.request("GET", path);
      return true;
    });
  }
  await client.patch(NODES, { name: POD_NODE }, {}, { kind: "apply" });
  await client.create(EGRESSES, {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { ...EGRESS },
    spec: { destinations: ["0.0.0.0/0", "::/0"], replicas: 1 },
  });
  await eventually("the gateways' rights", async () => {
    const bindings =
      "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/coil-egress";
    const text = JSON.stringify(await admin.request("GET", bindings));
    return text.includes(EGRESS.namespace);
  }, { timeoutMs: 30_000 });
}

/** A client's addresses. */
function addressesOf(number: number): string[] {
  return [
    `10.200.${number >> 8}.${number & 255}`,
    `fd20::${(number + 1).toString(16)}`,
  ];
}

/** Creates clients; without `report` their status tells no address yet. */
export async function createClients(
  client: KubeClient,
  options: {
    readonly from: number;
    readonly count: number;
    readonly report: boolean;
  },
): Promise<void> {
  const { from, count, report } = options;
  await many(count, WIDTH, async (i) => {
    const number = from + i;
    await client.create<V1Pod>(PODS, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        namespace: CLIENTS_NAMESPACE,
        name: `client-${number}`,
        annotations: {
          [`egress.coil.cybozu.com/${EGRESS.namespace}`]: EGRESS.name,
        },
      },
      spec: {
        nodeName: POD_NODE,
        containers: [{ name: "main", image: "none" }],
        tolerations: [{ operator: "Exists" }],
      },
    });
    if (report) await reportClient(client, number);
  });
}

/** Tells a client's addresses, as a kubelet does. Returns one of them. */
export async function reportClient(
  client: KubeClient,
  number: number,
): Promise<string> {
  const ips = addressesOf(number);
  const target = { namespace: CLIENTS_NAMESPACE, name: `client-${number}` };
  await client.patch<V1Pod>(PODS, target, {
    status: {
      phase: "Running",
      podIP: ips[0],
      podIPs: ips.map((ip) => ({ ip })),
    },
  }, { kind: "merge", subresource: "status" });
  return ips[0] ?? "";
}

/** Deletes a client. */
export async function removeClient(
  client: KubeClient,
  number: number,
): Promise<void> {
  await client.delete(PODS, {
    namespace: CLIENTS_NAMESPACE,
    name: `client-${number}`,
    gracePeriodSeconds: 0,
  });
}

/** Clients that are there when a gateway starts, without addresses: one by one they get them. */
export const SPARE = {
  native: { from: 2_000, count: 100 },
  guest: { from: 2_200, count: 30 },
} as const;
