import {
  ADDRESS_POOLS,
  type AddressPool,
  BLOCK_REQUESTS,
  type BlockRequest,
  type Egress,
  EGRESS_COMPONENT,
  EGRESSES,
  VPC_NODES,
  type VpcNode,
} from "../../../lib/api/mod.ts";
import {
  DAEMON_SETS,
  DEPLOYMENTS,
  isReadyPod,
  type KubeObject,
  LEASES,
  NODES,
  PODS,
  type V1DaemonSet,
  type V1Deployment,
  type V1Lease,
  type V1Node,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import {
  APP_COMPONENT_LABEL,
  CONTROLLER_LEASES,
  EGRESS_LEASE,
  IPAM_LEASE,
} from "../../../lib/names/mod.ts";
import type { Looker, Unseen } from "../base/looker.ts";
import { LINUX, OF_COIL } from "../base/selections.ts";

/** A Deployment or DaemonSet of Coil's. */
export interface Workload {
  readonly kind: "Deployment" | "DaemonSet";
  readonly namespace: string;
  readonly name: string;
  /** Pods that there should be. */
  readonly wanted: number;
  readonly ready: number;
}

/** A pod of Coil's. */
export interface Part {
  readonly namespace: string;
  readonly name: string;
  readonly component: string;
  readonly node: string;
  readonly version: string;
  readonly isReady: boolean;
  /** Why it is not ready, in a word or two. */
  readonly reason: string;
  readonly restarts: number;
  /** The container that is not ready, or the first. */
  readonly container: string;
}

/** Which part of coil-controller leads. */
export interface Leadership {
  readonly namespace: string;
  readonly name: string;
  /** Empty when it was given up. */
  readonly holder: string;
  /** RFC 3339 time. */
  readonly renewed: string | undefined;
  readonly seconds: number;
}

/** A Linux node. */
export interface NodeState {
  readonly name: string;
  /** Why its condition NetworkUnavailable is true. */
  readonly networkUnavailable: string | undefined;
}

/** Snapshot of a cluster; kinds that could not be read are absent. */
export interface Snapshot {
  readonly workloads?: readonly Workload[] | undefined;
  readonly parts?: readonly Part[] | undefined;
  readonly leases?: readonly Leadership[] | undefined;
  readonly pools?: readonly AddressPool[] | undefined;
  readonly requests?: readonly BlockRequest[] | undefined;
  readonly egresses?: readonly Egress[] | undefined;
  readonly nodes?: readonly NodeState[] | undefined;
  /** Of nodes whose pods have addresses of the VPC. */
  readonly vpcNodes?: readonly VpcNode[] | undefined;
  readonly unseen: readonly Unseen[];
  /** Plurals of the objects that were read, where that is known. */
  readonly seen?: readonly string[] | undefined;
}

/** Coil's objects, those of Egresses left out. */
export const DAEMONS: { readonly labelSelector: string } = {
  labelSelector:
    `${OF_COIL.labelSelector},${APP_COMPONENT_LABEL}!=${EGRESS_COMPONENT}`,
};

/** Leases of coil-controller's parts, each by its name. */
export const LEASE_SELECTIONS: readonly { readonly fieldSelector: string }[] =
  CONTROLLER_LEASES.map((name) => ({ fieldSelector: `metadata.name=${name}` }));

/** Whether coil-controller leads other parts and never led this one: the installation is without it. */
export function isLeftOut(
  lease: string,
  { leases = [] }: Pick<Snapshot, "leases">,
): boolean {
  return leases.length > 0 && !leases.some(({ name }) => name === lease);
}

export async function readSnapshot(looker: Looker): Promise<Snapshot> {
  const workloads = both(
    await looker.list(DEPLOYMENTS, workloadOfDeployment, DAEMONS),
    await looker.list(DAEMON_SETS, workloadOfDaemonSet, DAEMONS),
  );
  const leases = await readLeases(looker);
  const ofPools = { isOptional: isLeftOut(IPAM_LEASE, { leases }) };
  const ofEgress = { isOptional: isLeftOut(EGRESS_LEASE, { leases }) };
  return {
    workloads,
    parts: await looker.list(PODS, partOf, DAEMONS),
    leases,
    pools: await looker.list(ADDRESS_POOLS, (pool) => pool, ofPools),
    requests: await looker.list(BLOCK_REQUESTS, (request) => request, ofPools),
    egresses: await looker.list(EGRESSES, (egress) => egress, ofEgress),
    nodes: await looker.list(NODES, nodeOf, LINUX),
    vpcNodes: await looker.list(VPC_NODES, (node) => node, {
      isOptional: true,
    }),
    unseen: looker.unseen,
    seen: looker.seen,
  };
}

async function readLeases(looker: Looker): Promise<Leadership[] | undefined> {
  let leases: Leadership[] | undefined = [];
  for (const selection of LEASE_SELECTIONS) {
    leases = both(leases, await looker.list(LEASES, leadershipOf, selection));
  }
  return leases;
}

/** All of two lists; undefined when one of them could not be read. */
export function both<T>(
  a: T[] | undefined,
  b: T[] | undefined,
): T[] | undefined {
  return a === undefined || b === undefined ? undefined : [...a, ...b];
}

function nameOf({ metadata }: KubeObject): { namespace: string; name: string } {
  return { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" };
}

export function workloadOfDeployment(object: V1Deployment): Workload {
  return {
    kind: "Deployment",
    ...nameOf(object),
    wanted: object.spec?.replicas ?? 1,
    ready: object.status?.readyReplicas ?? 0,
  };
}

export function workloadOfDaemonSet(object: V1DaemonSet): Workload {
  return {
    kind: "DaemonSet",
    ...nameOf(object),
    wanted: object.status?.desiredNumberScheduled ?? 0,
    ready: object.status?.numberReady ?? 0,
  };
}

export function partOf(pod: V1Pod): Part {
  const { metadata, spec, status } = pod;
  const containers = status?.containerStatuses ?? [];
  const all = [...status?.initContainerStatuses ?? [], ...containers];
  const waiting = all.find(({ state }) => state?.waiting !== undefined);
  const culprit = waiting ?? containers.find(({ ready }) => !ready) ??
    containers[0];
  const ready = isReadyPod(pod);
  return {
    ...nameOf(pod),
    component: metadata?.labels?.[APP_COMPONENT_LABEL] ?? "",
    node: spec?.nodeName ?? "",
    version: versionOf(spec?.containers[0]?.image ?? ""),
    isReady: ready,
    reason: ready ? "" : reasonOf(pod, waiting?.state?.waiting?.reason),
    restarts: culprit?.restartCount ?? 0,
    container: culprit?.name ?? spec?.containers[0]?.name ?? "",
  };
}

function reasonOf(
  { metadata, spec, status }: V1Pod,
  waiting: string | undefined,
): string {
  if (metadata?.deletionTimestamp !== undefined) return "Terminating";
  if (waiting !== undefined) return waiting;
  if (spec?.nodeName === undefined) return "Unschedulable";
  return status?.phase === "Running" ? "NotReady" : status?.phase ?? "Unknown";
}

/** The tag of an image, or the start of its digest. */
function versionOf(image: string): string {
  const [name = "", digest] = image.split("@sha256:");
  const tag = /:([^:/]+)$/.exec(name)?.[1];
  return tag ?? digest?.slice(0, 12) ?? "";
}

export function leadershipOf(lease: V1Lease): Leadership {
  const { holderIdentity, renewTime, leaseDurationSeconds } = lease.spec ?? {};
  return {
    ...nameOf(lease),
    holder: holderIdentity ?? "",
    renewed: renewTime === undefined ? undefined : String(renewTime),
    seconds: leaseDurationSeconds ?? 0,
  };
}

export function nodeOf(node: V1Node): NodeState {
  const down = node.status?.conditions?.find(({ type, status }) =>
    type === "NetworkUnavailable" && status === "True"
  );
  return {
    name: node.metadata?.name ?? "",
    networkUnavailable: down === undefined
      ? undefined
      : down.message ?? down.reason ?? "",
  };
}
