import {
  keepFields,
  type V1Namespace,
  type V1Node,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import {
  type AddressPool,
  type AddressPoolStatus,
  CONDITION_CAPACITY_LOW,
  conditionOf,
  egressLabels,
  GATEWAY_LABELS,
  gatewayEgress,
  isGatewayPod,
  shortenEgressAnnotation,
  shortenPoolAnnotation,
} from "../../../lib/api/mod.ts";
import type { PoolState } from "../../../lib/ipam/mod.ts";
import {
  ANY_SOURCE_ANNOTATION,
  ANY_SOURCE_LABEL,
  DEFAULT_ROUTE_NIC_ANNOTATION,
  EGRESS_ANNOTATION_PREFIX,
  POD_POOLS_ANNOTATION,
  POOL_ANNOTATION,
} from "../../../lib/names/mod.ts";
import { allowsAnySource } from "./any_source.ts";

// What stays in memory of each cached object. A node daemon keeps hundreds of
// them for months; unused fields are most of their size.

type Metadata = Pick<
  NonNullable<V1Pod["metadata"]>,
  "name" | "namespace" | "uid" | "resourceVersion" | "annotations" | "labels"
>;

function transformMetadata(
  metadata: Metadata = {},
  keepAnnotation: (name: string, value: string) => boolean,
): Metadata {
  const annotations = Object.fromEntries(
    Object.entries(metadata.annotations ?? {})
      .filter(([key, value]) => keepAnnotation(key, value))
      .map(([key, value]) => [key, shortened(key, value)]),
  );
  return {
    ...keepFields(metadata, "name", "namespace", "uid", "resourceVersion"),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

/** Anyone who creates a pod may make its annotations long. */
function shortened(key: string, value: string): string {
  if (isEgressAnnotation(key)) return shortenEgressAnnotation(value);
  // One character more than a name has stays one that no interface has.
  if (key === DEFAULT_ROUTE_NIC_ANNOTATION) return value.trim().slice(0, 16);
  return key === POOL_ANNOTATION ? shortenPoolAnnotation(value) : value;
}

function isEgressAnnotation(key: string): boolean {
  return key.startsWith(EGRESS_ANNOTATION_PREFIX);
}

/** Only the value that means something: others may be long. */
function isRead(key: string, value: string): boolean {
  return isEgressAnnotation(key) || key === DEFAULT_ROUTE_NIC_ANNOTATION ||
    key === POOL_ANNOTATION ||
    key === ANY_SOURCE_ANNOTATION && value === "true";
}

/** Keeps a pod's identity, whether it is about to go, the annotations that are read, addresses and phase, and whether it has a network of its own or is a gateway. */
export function transformPod(pod: V1Pod): V1Pod {
  return {
    metadata: {
      ...transformMetadata(pod.metadata, isRead),
      ...keepFields(pod.metadata, "deletionTimestamp"),
      ...labelsOf(pod),
    },
    ...(pod.spec?.hostNetwork === true && {
      spec: { containers: [], hostNetwork: true },
    }),
    status: keepFields(pod.status, "phase", "podIPs"),
  };
}

/** Those by which a gateway and its Egress are known. */
function labelsOf(pod: V1Pod): Pick<Metadata, "labels"> {
  if (!isGatewayPod(pod)) return {};
  const name = gatewayEgress(pod)?.name;
  return { labels: name === undefined ? GATEWAY_LABELS : egressLabels(name) };
}

/** Keeps a namespace's name, pool and default Egresses, and whether its pods may send from any source. */
export function transformNamespace(namespace: V1Namespace): V1Namespace {
  return {
    metadata: {
      ...transformMetadata(
        namespace.metadata,
        (key) =>
          key === POOL_ANNOTATION || key === POD_POOLS_ANNOTATION ||
          isEgressAnnotation(key),
      ),
      ...(allowsAnySource(namespace) && {
        labels: { [ANY_SOURCE_LABEL]: "true" },
      }),
    },
  };
}

/** Keeps a Node's identity and InternalIPs. */
export function transformNode(node: V1Node): V1Node {
  return {
    metadata: transformMetadata(node.metadata, () => false),
    spec: keepFields(node.spec, "unschedulable"),
    status: {
      capacity: keepFields(node.status?.capacity, "pods"),
      addresses: (node.status?.addresses ?? []).filter((entry) =>
        entry.type === "InternalIP"
      ),
    },
  };
}

/** A pool as it is kept: its status says no more than how many blocks are left. */
export interface KnownPool extends AddressPool {
  readonly capacity?: PoolCapacity;
}

/**
 * How much of a pool is left: `low`: empty blocks should go back soon; `ample`: it is large and has room, so they
 * stay, since all nodes with coil-router read each block that comes or goes; `ready`: neither.
 */
export type PoolCapacity = Extract<PoolState, "low" | "ready" | "ample">;

/** A pool is ample from so many blocks in use and this share of free ones on, in %. */
const AMPLE_FROM = { allocated: 2_000, freePercent: 35 };
/** It stays so down to these, or its nodes would be woken all the time. */
const AMPLE_UNTIL = { allocated: 1_500, freePercent: 30 };

function capacityOf(
  { conditions, blocks }: AddressPoolStatus,
  before: PoolCapacity | undefined,
): PoolCapacity {
  const low = conditionOf(conditions, CONDITION_CAPACITY_LOW);
  if (low?.status === "True") return "low";
  // Controllers of Coil v2 count nothing.
  if (blocks === undefined) return "ready";
  const least = before === "ample" ? AMPLE_UNTIL : AMPLE_FROM;
  const isAmple = blocks.allocated >= least.allocated &&
    blocks.free * 100 >= blocks.total * least.freePercent;
  return isAmple ? "ample" : "ready";
}

/**
 * Keeps a pool's identity, whether it is being deleted and how many blocks it
 * has left, given what is known of it.
 *
 * All nodes see each change of its status, whose numbers change while blocks
 * come and go. Spec and deletion change the generation, which stands for the
 * object's version here, together with the capacity.
 */
export function transformPool(
  { status = {}, metadata, ...pool }: AddressPool,
  known?: KnownPool,
): KnownPool {
  const capacity = capacityOf(status, known?.capacity);
  const generation = metadata.generation === undefined
    ? undefined
    : `${metadata.generation} ${capacity}`;
  return {
    ...pool,
    capacity,
    metadata: {
      ...transformMetadata(metadata, () => false),
      ...(generation !== undefined && { resourceVersion: generation }),
      ...keepFields(metadata, "deletionTimestamp"),
    },
  };
}
