import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  EGRESS_CLIENT_SLICES,
  EGRESSES,
  SPIDER_COORDINATORS,
  VPC_NODES,
} from "../../../lib/api/mod.ts";
import {
  CONFIG_MAPS,
  type CoreV1Event,
  DAEMON_SETS,
  DEPLOYMENTS,
  EVENTS,
  keepFields,
  type KubeObject,
  LEASES,
  NAMESPACES,
  NODES,
  PODS,
  type ResourceType,
  type V1Lease,
  type V1Namespace,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import { API_GROUP, CONTROLLER_LEASES } from "../../../lib/names/mod.ts";
import type { Looker } from "../base/looker.ts";
import { OF_COIL } from "../base/selections.ts";
import { withoutSecrets } from "../archive/clean.ts";

/** Reads one kind of objects: each as it goes into the archive. */
export interface ObjectReader {
  /** As the API calls them. */
  readonly plural: string;
  /** Undefined when they may not be read, or are not served. */
  readonly read: (
    looker: Looker,
    context: ReadContext,
  ) => Promise<unknown[] | undefined>;
}

export interface ReadContext {
  readonly signal: AbortSignal;
  /** UIDs of Coil's pods. */
  readonly ownPods: ReadonlySet<string>;
}

/** All that are read, pools before what is called after them. */
export const OBJECTS: readonly ObjectReader[] = [
  all(ADDRESS_POOLS),
  all(ADDRESS_BLOCKS),
  all(BLOCK_REQUESTS),
  all(EGRESSES),
  all(EGRESS_CLIENT_SLICES),
  all(SPIDER_COORDINATORS),
  all(VPC_NODES),
  all(DEPLOYMENTS, OF_COIL),
  all(DAEMON_SETS, OF_COIL),
  all(PODS, OF_COIL),
  all(CONFIG_MAPS, OF_COIL),
  all(LEASES, {}, leaseOf),
  all(NODES, {}, nodeOf),
  all(NAMESPACES, {}, namespaceOf),
  all(EVENTS, {}, eventOf),
];

/** Of each object what is kept of it; of some nothing. */
function all<T extends object>(
  type: ResourceType<T>,
  selection: { readonly labelSelector?: string } = {},
  keep: (object: T, context: ReadContext) => object | undefined = (all) => all,
): ObjectReader {
  return {
    plural: type.plural,
    read: async (looker, context) => {
      const kept = await looker.list(
        type,
        (object) => withoutSecrets(keep(object, context)),
        { ...selection, signal: context.signal },
      );
      return kept?.filter((object) => object !== undefined);
    },
  };
}

function leaseOf(lease: V1Lease): object | undefined {
  const { name = "" } = lease.metadata ?? {};
  return CONTROLLER_LEASES.includes(name) ? lease : undefined;
}

/** A node without what its kubelet says of images and volumes, and without what others wrote on it. */
function nodeOf({ metadata, spec, status }: V1Node): object {
  const { labels = {}, ...rest } = keepFields(
    metadata,
    "name",
    "uid",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
  );
  const kept = Object.entries(labels).filter(([key]) =>
    /(?:^|\.)(?:kubernetes\.io|k8s\.io)\/|^coil/.test(key)
  );
  return {
    metadata: { ...rest, labels: Object.fromEntries(kept) },
    spec: keepFields(spec, "podCIDRs", "taints", "unschedulable"),
    status: keepFields(
      status,
      "addresses",
      "conditions",
      "nodeInfo",
      "allocatable",
    ),
  };
}

function isOfCoil(key: string): boolean {
  return key.includes(`${API_GROUP}/`);
}

/** A namespace that has something to say to Coil. */
function namespaceOf({ metadata }: V1Namespace): object | undefined {
  const { name, annotations = {}, labels = {} } = metadata ?? {};
  const own = (all: Record<string, string>) =>
    Object.fromEntries(Object.entries(all).filter(([key]) => isOfCoil(key)));
  const said = { annotations: own(annotations), labels: own(labels) };
  const count = Object.values(said).flatMap(Object.keys).length;
  if (count === 0) return undefined;
  const { creationTimestamp } = metadata ?? {};
  return { metadata: { name, creationTimestamp, ...said } };
}

/** Reasons of the kubelet for what a network plugin did not do. */
const KUBELET_REASONS = new Set([
  "FailedCreatePodSandBox",
  "FailedKillPod",
  "NetworkNotReady",
]);

/** An Event by Coil, about its objects and pods, or of pods whose network was not made. */
function eventOf(
  event: CoreV1Event,
  { ownPods }: ReadContext,
): KubeObject | undefined {
  const { involvedObject, source, reportingComponent, reason = "" } = event;
  const by = reportingComponent || source?.component || "";
  const isCoils = /^coil/.test(by) ||
    isOfCoil(`${involvedObject.apiVersion ?? ""}`) ||
    ownPods.has(involvedObject.uid ?? "") ||
    /^coil/.test(involvedObject.name ?? "");
  return isCoils || KUBELET_REASONS.has(reason) ? event : undefined;
}

/** One object a line, so that it is JSON and can be searched by lines. */
export function objectsText(objects: readonly unknown[]): string {
  const lines = objects.map((object) => JSON.stringify(object));
  return `[\n${lines.join(",\n")}\n]\n`;
}
