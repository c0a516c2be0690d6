import {
  egressAnnotationProblem,
  egressAnnotationsOf,
  type EgressClient,
  parseEgressAnnotations,
  withDefaultEgresses,
} from "../../../lib/api/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  type Annotations,
  hasEnded,
  Informer,
  keepFields,
  type KubeClient,
  LIVE_PODS,
  PODS,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { addressText, type CachedPod } from "../base/cached_pod.ts";
import { precedes } from "../base/versions.ts";

/** On a node, with an address of their own, not ended. A pod that ends leaves the selection, which the API server reports as its deletion. */
const SELECTOR = [
  "spec.nodeName!=",
  "spec.hostNetwork=false",
  LIVE_PODS,
].join();

/** Name of the index of pods by the Egresses that they use. */
const BY_EGRESS = "egress";

export interface ClientPodsOptions {
  /** Called for each pod of the cluster that comes by. */
  readonly onRead?: () => void;
  /** Whether the addresses of pods that use no Egress are kept. */
  readonly everyAddress?: boolean;
  /** The Egresses that a namespace's pods use by default, as annotations. */
  readonly defaultsOf?: (namespace: string) => Annotations | undefined;
}

/**
 * Follows the pods that use Egresses. Which they are is in annotations, so all
 * pods of the cluster come by; of those that use none nothing is kept, or no
 * more than their addresses.
 */
export function clientPods(
  client: KubeClient,
  {
    onRead,
    everyAddress = false,
    defaultsOf = () => undefined,
  }: ClientPodsOptions = {},
): Informer<CachedPod> {
  const withDefaults = (pod: V1Pod): V1Pod => {
    const { metadata } = pod;
    const defaults = defaultsOf(metadata?.namespace ?? "");
    const annotations = withDefaultEgresses(pod, defaults);
    return annotations === metadata?.annotations
      ? pod
      : { ...pod, metadata: { ...metadata, annotations: annotations ?? {} } };
  };
  const isKept = everyAddress
    ? (pod: V1Pod) => addressText(pod) !== ""
    : () => false;
  const pods: Informer<CachedPod> = new Informer<CachedPod>(client, PODS, {
    fieldSelector: SELECTOR,
    keep: (pod) => {
      onRead?.();
      return isKept(pod) || isClient(withDefaults(pod));
    },
    transform: (pod) => {
      const client = withDefaults(pod);
      if (isClient(client)) return transformClientPod(client);
      const { namespace = "", name = "" } = pod.metadata ?? {};
      const known = pods.store.get(nameText({ namespace, name }));
      const addresses = addressText(pod);
      return known?.addresses === addresses ? known : { addresses };
    },
    indexes: { [BY_EGRESS]: egressesOf },
  });
  return pods;
}

function isClient(pod: V1Pod): boolean {
  return egressesOf(pod).length > 0;
}

/** The clients of an Egress, by UID. */
export function clientsOf(
  { store }: Pick<Informer<V1Pod>, "store">,
  egress: string,
): Map<string, EgressClient> {
  const clients = store.byIndex(BY_EGRESS, egress).map(clientOf);
  return new Map(clients.map((client) => [client.uid, client]));
}

/** The newest version of the pods of these clients; "0" of none. */
export function newestVersionOf(
  { store }: Pick<Informer<V1Pod>, "store">,
  clients: readonly EgressClient[],
): string {
  return clients
    .flatMap((client) => store.get(nameText(client))?.metadata ?? [])
    .map(({ resourceVersion = "0" }) => resourceVersion)
    .reduce((a, b) => precedes(a, b) ? b : a, "0");
}

/** How many clients an Egress has. */
export function clientCount(
  { store }: Pick<Informer<V1Pod>, "store">,
  egress: string,
): number {
  return store.byIndex(BY_EGRESS, egress).length;
}

/**
 * The Egresses that a pod uses, as `namespace/name`: none before it has a
 * node, without an address of its own, after its end, or if coild would refuse
 * its annotations.
 */
export function egressesOf(pod: V1Pod): string[] {
  if (!isLive(pod)) return [];
  const { metadata } = pod;
  const references = parseEgressAnnotations(metadata?.annotations);
  if (references.length === 0) return [];
  if (egressAnnotationProblem(references) !== undefined) return [];
  return references.flatMap(({ namespace, names }) =>
    names.map((name) => `${namespace}/${name}`)
  );
}

/** Whether a pod is on a node, has a network of its own and has not ended. */
function isLive(pod: V1Pod): boolean {
  const { spec } = pod;
  return spec?.nodeName !== undefined && spec.hostNetwork !== true &&
    !hasEnded(pod);
}

/** Keeps what the other functions here read. */
export function transformClientPod({ metadata, spec, status }: V1Pod): V1Pod {
  return {
    metadata: {
      ...keepFields(metadata, "name", "namespace", "uid", "resourceVersion"),
      annotations: egressAnnotationsOf(metadata?.annotations),
    },
    ...(spec?.nodeName !== undefined &&
      { spec: { nodeName: spec.nodeName, containers: [] } }),
    status: { podIPs: status?.podIPs ?? [] },
  };
}

/** A pod as an Egress' client. What is not an address in its status is left out. */
function clientOf({ metadata, spec, status }: V1Pod): EgressClient {
  const { namespace = "", name = "", uid = "" } = metadata ?? {};
  const addresses = (status?.podIPs ?? [])
    .map(({ ip = "" }) => Address.tryParse(ip)?.toString())
    .filter((address) => address !== undefined);
  return {
    namespace,
    name,
    uid,
    nodeName: spec?.nodeName ?? "",
    ...(addresses.length > 0 && { addresses }),
  };
}
