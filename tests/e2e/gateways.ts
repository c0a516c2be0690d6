// Gateways of an Egress, as far as this machine's kernel lets them come.
import { EGRESS_SELECTOR, EGRESSES } from "../../lib/api/mod.ts";
import type { V1Pod } from "../../lib/kube/mod.ts";
import { eventually } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";
import { isReady } from "./pods.ts";

/** Their Egress. */
export interface Gateways {
  readonly name: string;
  readonly namespace: string;
  readonly replicas: number;
}

/** Creates an Egress with a disruption budget, and waits until each of its gateways is ready or says why it cannot be. */
export async function createEgress(
  site: Installation,
  { name, namespace, replicas }: Gateways,
): Promise<void> {
  await site.client.create(EGRESSES, {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { name, namespace },
    spec: {
      replicas,
      destinations: ["192.0.2.0/24"],
      podDisruptionBudget: { maxUnavailable: 1 },
    },
  });
  await eventually(`${replicas} gateways`, async () => {
    const labelSelector =
      `${EGRESS_SELECTOR},app.kubernetes.io/instance=${name}`;
    const pods = await site.pods.list({ namespace, labelSelector });
    const states = await Promise.all(
      pods.map((pod) => gatewayState(site, pod)),
    );
    return states.length === replicas &&
      states.every((state) => state !== "starting");
  }, { timeoutMs: 300_000, intervalMs: 1_000 });
}

/** Without Foo-over-UDP, as this machine's kernel may be, a gateway gets as far as to say so. */
async function gatewayState(
  site: Installation,
  pod: V1Pod,
): Promise<"ready" | "unsupported" | "starting"> {
  if (isReady(pod)) return "ready";
  const started = pod.status?.containerStatuses?.[0]?.restartCount ?? 0;
  if (started === 0) return "starting";
  const log = await site.plane.kubectl(
    ...["logs", "-n", pod.metadata?.namespace ?? ""],
    pod.metadata?.name ?? "",
  ).catch(() => ""); // Between two attempts there may be none.
  return /Foo-over-UDP tunnels: .*EOPNOTSUPP/.test(log)
    ? "unsupported"
    : "starting";
}
