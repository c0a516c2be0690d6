// coil-controller in a cluster of full size: 150,000 pods, of which 10,000 use an
// Egress, and 200 Egresses of 3 gateways, beside the blocks that are there.
import {
  ADDRESS_POOLS,
  type AddressPool,
  type Egress,
  EGRESS_CLIENT_SLICES,
  type EgressClientSlice,
  EGRESSES,
  egressLabels,
} from "../../../lib/api/mod.ts";
import { PODS, resourcePath } from "../../../lib/kube/mod.ts";
import {
  EGRESS_ANNOTATION_PREFIX,
  GROUP_VERSION,
} from "../../../lib/names/mod.ts";
import { patchPodStatus } from "../../apiserver/patch_status.ts";
import type { CoilCluster } from "../../lab/coil.ts";
import { type ControlPlane, eventually, sleep } from "../../lab/mod.ts";
import { type ClusterSize, LARGE } from "../../scale/size.ts";
import { type Figure, figure } from "../figures.ts";
import { many } from "../many.ts";
import { memoryOf, peakOf } from "../process_memory.ts";
import { createPodsElsewhere } from "./objects.ts";
import { storePods, storePodsElsewhere } from "./stored.ts";

const SETTLE_MS = 10_000;
const WIDTH = 8;
/** On a machine that has much else to do, 150,000 pods take more than five minutes. */
const READY_MS = 900_000;
/** An address of the first block of the pool "big" (objects.ts). */
const MARKED = "10.48.212.1";
/** Its image is the gateways'. */
const OWN_POD = { namespace: "kube-system", name: "coil-controller-0" };

/** coil-controller, which watches all pods, blocks, nodes and Egresses: while they come, and started when they are there. */
export async function controllerFigures(
  cluster: CoilCluster,
  { nodes }: Pick<ClusterSize, "nodes">,
): Promise<Figure[]> {
  const { plane, controller } = cluster;
  if (controller === undefined) throw new Error("No coil-controller runs");
  const part = nodes / LARGE.nodes;
  const [pods, clients, egresses] = [LARGE.pods, LARGE.clients, LARGE.egresses]
    .map((count) => count * part) as [number, number, number];
  await createEgresses(plane, egresses);
  await storePodsElsewhere(plane, pods, {
    annotationsOf: (index) =>
      index < clients ? clientAnnotations(index % egresses) : undefined,
  });
  // It comes last: when its address counts, all others have been read.
  await createPodsElsewhere(plane, 1);
  const marked = { namespace: "elsewhere", name: "pod-0" };
  await patchPodStatus(plane, marked, { ips: [MARKED] });
  await addressesCount(plane, "1");
  await clientsWritten(plane, clients);
  await sleep(SETTLE_MS);
  const grown = [memoryOf(controller.pid).residentMiB, peakOf(controller.pid)];
  await controller.kill9();
  const path = resourcePath(PODS, marked);
  await plane.request("DELETE", `${path}?gracePeriodSeconds=0`);
  const { pid } = await cluster.startController();
  await addressesCount(plane, "0");
  await sleep(SETTLE_MS);
  const { residentMiB, anonymousMiB } = memoryOf(pid);
  return [
    ...["", ".grown.peak"].map((what, i) =>
      figure(`rss.controller.pods${what}`, "MiB", [grown[i] ?? NaN], {
        target: "≤ 150",
      })
    ),
    figure("rss.controller.pods.start", "MiB", [residentMiB], {
      target: "≤ 150",
    }),
    figure("anonymous.controller.pods.start", "MiB", [anonymousMiB]),
    figure("rss.controller.pods.peak", "MiB", [peakOf(pid)], {
      target: "≤ 150",
    }),
  ];
}

const namespaceOf = (egress: number) =>
  `egress-${egress % LARGE.egressNamespaces}`;

function clientAnnotations(egress: number): Readonly<Record<string, string>> {
  const key = `${EGRESS_ANNOTATION_PREFIX}${namespaceOf(egress)}`;
  return { [key]: `egress-${egress}` };
}

/** So many Egresses in as many namespaces as a large cluster has, each with pods as its Deployment has them. */
async function createEgresses(
  plane: ControlPlane,
  count: number,
): Promise<void> {
  await plane.request("POST", `/api/v1/namespaces/kube-system/pods`, {
    metadata: OWN_POD,
    spec: { containers: [{ name: "coil-controller", image: "coil" }] },
  });
  const namespaces = new Set(
    Array.from({ length: count }, (_, i) => namespaceOf(i)),
  );
  for (const name of namespaces) {
    await plane.request("POST", "/api/v1/namespaces", { metadata: { name } });
  }
  await many(count, WIDTH, async (i) => {
    const egress: Egress = {
      apiVersion: GROUP_VERSION,
      kind: "Egress",
      metadata: { namespace: namespaceOf(i), name: `egress-${i}` },
      spec: { replicas: LARGE.gatewaysEach, destinations: ["0.0.0.0/0"] },
    };
    const { namespace = "" } = egress.metadata;
    await plane.request("POST", resourcePath(EGRESSES, { namespace }), egress);
  });
  await storePods(plane, count * LARGE.gatewaysEach, (index) => ({
    node: `elsewhere-${index % 100}`,
    address: `10.199.${index >> 8}.${index & 255}`,
    namespace: namespaceOf(index % count),
    labels: egressLabels(`egress-${index % count}`),
  }));
}

/** Waits until coil-controller has counted so many addresses of pods in the pool "big". */
async function addressesCount(
  plane: ControlPlane,
  count: string,
): Promise<void> {
  await eventually("the pods' addresses to be counted", async () => {
    const path = resourcePath(ADDRESS_POOLS, { name: "big" });
    const { status } = await plane.request("GET", path) as AddressPool;
    return status?.ipv4?.used === count;
  }, { timeoutMs: READY_MS, intervalMs: 2_000 });
}

/** Waits until coil-controller has written so many clients into slices. */
async function clientsWritten(
  plane: ControlPlane,
  count: number,
): Promise<void> {
  await eventually("the Egresses' clients to be written", async () => {
    const { items } = await plane.request(
      "GET",
      resourcePath(EGRESS_CLIENT_SLICES),
    ) as { items: EgressClientSlice[] };
    const written = items.reduce((sum, s) => sum + (s.clients ?? []).length, 0);
    return written === count;
  }, { timeoutMs: READY_MS, intervalMs: 2_000 });
}
