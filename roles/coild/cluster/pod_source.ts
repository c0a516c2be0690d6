import {
  choosePools,
  type ChosenPools,
  egressAnnotationsOf,
  isGatewayPod,
  withDefaultEgresses,
} from "../../../lib/api/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { isTimeout, type Loops, withTimeout } from "../../../lib/async/mod.ts";
import {
  type Annotations,
  Informer,
  KubeApiError,
  type KubeClient,
  KubeUnreachableError,
  NAMESPACES,
  PODS,
  type StoreChange,
  type V1Namespace,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import {
  allowsAnySource,
  asksForAnySource,
  type SourceChoice,
} from "./any_source.ts";
import { egressRefsOf, namesEgress } from "../../../lib/egress/mod.ts";
import { hasOwnNetwork, podAddresses } from "./pod_status.ts";
import {
  NotReadyError,
  PodNotFoundError,
  PoolRefusedError,
} from "../base/errors.ts";
import { transformNamespace, transformPod } from "./transform.ts";

const log = getLogger("pod-source");

/** The runtime tries again by itself, so an API server that is away is not waited for. */
const LIVE_GET_MS = 5_000;
/** Where the runtime has given all that ADD needs, and only the pod's node is in question. */
const NODE_GET_MS = 1_000;

/** A pod by name, with what its runtime gave about it. */
export interface PodQuery extends NamespacedName {
  /** The UID by which the runtime knows the pod; a static pod has another one in the API. */
  readonly uid?: string;
  /** The pod's annotations when the container runtime handed them over. */
  readonly annotations?: Annotations;
}

/** Index of the cached pods: those that have an address. */
const BY_ADDRESS = "address";

/** Facts about a pod for ADD. */
export interface PodFacts extends NamespacedName {
  readonly uid?: string;
  /** The pod's, with its namespace's default Egresses. */
  readonly annotations: Annotations;
  /** Where the annotations come from. */
  readonly from: "runtime" | "cache" | "api";
  /** Whether it is a gateway of an Egress; known of pods that ask for egress. */
  readonly isGateway: boolean;
  /** Its namespace, where that had to be read. */
  readonly home?: V1Namespace | undefined;
}

/**
 * Finds pods of this node and the pool of their namespace.
 *
 * The cheapest source first: what the runtime handed over, then the cache of
 * this node's pods, then one live GET, which also recognises pods of other nodes,
 * for a pod that the cache does not have. Only names, addresses and the
 * annotations that Coil reads are kept of the cached objects.
 */
export class PodSource {
  readonly #client: KubeClient;
  readonly #nodeName: string;
  readonly #hasDefaults: boolean;
  readonly #pods: Informer<V1Pod>;
  readonly #namespaces: Informer<V1Namespace> | undefined;

  /** Namespaces are watched where they say which pool their pods are given addresses of, or which Egresses these use by default. */
  constructor(
    client: KubeClient,
    { nodeName, pools, defaultEgresses }: {
      readonly nodeName: string;
      readonly pools: boolean;
      readonly defaultEgresses: boolean;
    },
  ) {
    this.#client = client;
    this.#nodeName = nodeName;
    this.#hasDefaults = defaultEgresses;
    this.#pods = new Informer(client, PODS, {
      fieldSelector: `spec.nodeName=${nodeName}`,
      transform: transformPod,
      indexes: {
        [BY_ADDRESS]: (pod) => hasOwnNetwork(pod) ? addressTexts(pod) : [],
      },
    });
    this.#namespaces = pools || defaultEgresses
      ? new Informer(client, NAMESPACES, {
        metadataOnly: true,
        transform: transformNamespace,
      })
      : undefined;
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Loops {
    const namespaces = this.#namespaces;
    return {
      "pod informer": (signal) => this.#pods.run(signal),
      ...(namespaces && {
        "namespace informer": (signal) => namespaces.run(signal),
      }),
    };
  }

  /** Resolves after the first lists. */
  async synced(): Promise<void> {
    await Promise.all([this.#pods.synced, this.#namespaces?.synced]);
  }

  /** True when the cache of pods can be believed to be complete. */
  get isSynced(): boolean {
    return this.#pods.hasSynced;
  }

  /** The pods of this node, transformed. */
  list(): V1Pod[] {
    return this.#pods.store.list();
  }

  /**
   * The pods of this node as the API server has them now, not as a watch has shown them.
   *
   * @throws {KubeApiError} or {KubeUnreachableError} when it does not list them
   */
  async listLive({ signal }: { signal: AbortSignal }): Promise<V1Pod[]> {
    // Without a limit, with which Kubernetes 1.33.0 to 1.33.2 asks etcd for all pods.
    const { items } = await this.#client.list(PODS, {
      fieldSelector: `spec.nodeName=${this.#nodeName}`,
      signal,
      timeoutMs: LIVE_GET_MS,
    });
    return items;
  }

  /** A pod of this node, transformed, by `<namespace>/<name>`. */
  get(key: string): V1Pod | undefined {
    return this.#pods.store.get(key);
  }

  /** A pod's annotations with its namespace's default Egresses; undefined while the namespace is not known. */
  annotationsOf(pod: V1Pod): Annotations | undefined {
    const { namespace = "", annotations = {} } = pod.metadata ?? {};
    if (!this.#hasDefaults) return annotations;
    const object = this.#namespaces?.store.get(namespace);
    return object && (withDefaultEgresses(pod, defaultsOf(object)) ?? {});
  }

  /** The pods of this node that use an Egress, by its key. */
  clientsOf(egress: string): V1Pod[] {
    return this.list().filter((pod) =>
      this.#egressesOf(pod).some((ref) => nameText(ref) === egress)
    );
  }

  /** Whether a pod of this node uses an Egress of the namespace. */
  hasClientsOf(namespace: string): boolean {
    return this.list().some((pod) =>
      this.#egressesOf(pod).some((ref) => ref.namespace === namespace)
    );
  }

  #egressesOf(pod: V1Pod) {
    return egressRefsOf(this.annotationsOf(pod));
  }

  /** The pods of this node that are in a namespace. */
  inNamespace(namespace: string): V1Pod[] {
    return this.list().filter(({ metadata }) =>
      metadata?.namespace === namespace
    );
  }

  /** The other pods of this node that have an address of this one, and a network of their own. */
  withSameAddress(pod: V1Pod): V1Pod[] {
    const found = addressTexts(pod)
      .flatMap((text) => this.#pods.store.byIndex(BY_ADDRESS, text));
    return [...new Set(found)]
      .filter(({ metadata }) => metadata?.uid !== pod.metadata?.uid);
  }

  /** Calls back with each pod of this node that came, changed or went. */
  subscribe(listener: (change: StoreChange<V1Pod>) => void): Disposable {
    return this.#pods.subscribe(listener);
  }

  /** The cached pod's UID, for Events; undefined when it is not cached. */
  uidOf(namespace: string, name: string): string | undefined {
    return this.#pods.store.get(`${namespace}/${name}`)?.metadata?.uid;
  }

  /**
   * What is known of a pod that is to be connected.
   *
   * @throws {PodNotFoundError} when neither the runtime nor the API server knows the pod.
   * @throws {NotReadyError} when the pod is another node's.
   */
  async find(
    query: PodQuery,
    { signal }: { signal: AbortSignal },
  ): Promise<PodFacts> {
    const { namespace, name } = query;
    const found = this.#pods.store.get(nameText(query));
    // A cache that is behind still has the pod's predecessor of that name.
    const isOther = query.uid !== undefined &&
      found?.metadata?.uid !== query.uid;
    const cached = isOther ? undefined : found;
    // Without default Egresses it may not matter.
    const home = this.#hasDefaults
      ? await this.#homeOf({ namespace }, { signal })
      : undefined;
    const defaults = defaultsOf(home);
    const pod = cached ?? await this.#lookUp(query, { defaults, signal });
    this.#assertOwn(pod);
    if (query.annotations !== undefined) {
      // The API server may know another pod of that name as well.
      const isIts = query.uid === undefined || pod?.metadata?.uid === query.uid;
      return facts(isIts ? pod : undefined, {
        ...query,
        annotations: query.annotations,
        home,
        from: "runtime",
      });
    }
    if (pod === undefined) {
      throw new PodNotFoundError(
        `Cannot find pod "${namespace}/${name}": it does not exist in the API; ` +
          "it was deleted, or CNI_ARGS name another one",
      );
    }
    const { annotations = {} } = pod.metadata ?? {};
    const from = cached === undefined ? "api" : "cache";
    return facts(pod, { namespace, name, annotations, home, from });
  }

  /**
   * The pod as it is now: the cache is behind, or the pod is not this node's.
   * undefined where there is none, and where the API server does not answer
   * although the runtime has given enough.
   */
  async #lookUp(
    query: PodQuery,
    { defaults, signal }: {
      readonly defaults: Annotations;
      readonly signal: AbortSignal;
    },
  ): Promise<V1Pod | undefined> {
    const { namespace, name } = query;
    const get = (signal: AbortSignal) =>
      this.#client.tryGet(PODS, {
        name,
        namespace,
        signal,
        timeoutMs: LIVE_GET_MS,
      });
    if (!hasToldEnough(query, defaults)) return await get(signal);
    try {
      // An aborted request does not affect the connection of the watches.
      return await withTimeout(NODE_GET_MS, get, { signal });
    } catch (error) {
      if (signal.aborted || !isUnanswered(error)) throw error;
      log.info("Cannot get a pod; using the runtime's data", {
        pod: nameText(query),
        err: error,
      });
      return undefined;
    }
  }

  /**
   * A kubelet that was given another name starts pods of that name before it
   * has ended the coild of the former one. An address of this node's blocks
   * would go to another node with its block, when the former Node is deleted.
   */
  #assertOwn(pod: V1Pod | undefined): void {
    const node = pod?.spec?.nodeName;
    if (node === undefined || node === this.#nodeName) return;
    const { namespace, name } = pod?.metadata ?? {};
    throw new NotReadyError(
      `Cannot connect pod "${namespace}/${name}": it is scheduled to node "${node}", but this coild serves node "${this.#nodeName}"; ` +
        "if the node was renamed, a coild with the new name will start",
    );
  }

  /**
   * The address pools of a pod, the preferred one first: its namespace's, or
   * its own where the namespace allows it.
   *
   * @throws {PodNotFoundError} when the namespace is not in the cluster.
   * @throws {PoolRefusedError} when the pod names one that it may not have.
   */
  async poolsOf(
    pod: Pick<PodFacts, "namespace" | "name" | "annotations" | "home">,
    { signal }: { signal: AbortSignal },
  ): Promise<ChosenPools> {
    const { namespace, annotations } = pod;
    const object = await this.#homeOf(pod, { signal });
    if (object === undefined) {
      throw new PodNotFoundError(
        `Cannot choose an address pool: namespace "${namespace}" does not exist; ` +
          "it was deleted, or CNI_ARGS name another one",
      );
    }
    const choice = choosePools(annotations, object.metadata?.annotations);
    if (choice.kind === "refused") throw new PoolRefusedError(pod, choice);
    return choice;
  }

  /** Which sources the packets of a pod may have that is to be connected. Makes no API call for pods without the annotation. */
  async sourcesOf(
    pod: Pick<PodFacts, "namespace" | "annotations" | "home">,
    { signal }: { signal: AbortSignal },
  ): Promise<SourceChoice> {
    if (!asksForAnySource(pod.annotations)) return "own";
    const home = await this.#homeOf(pod, { signal });
    return allowsAnySource(home) ? "any" : "refused";
  }

  /** Which sources the packets of a pod of this node may have; undefined while its namespace is not known. */
  knownSourcesOf({ metadata }: V1Pod): SourceChoice | undefined {
    if (!asksForAnySource(metadata?.annotations)) return "own";
    const namespace = metadata?.namespace ?? "";
    const object = this.#namespaces?.store.get(namespace);
    if (object === undefined) return undefined;
    return allowsAnySource(object) ? "any" : "refused";
  }

  /** The pods of this node that have the address, and a network of their own. */
  withAddress(address: Address): V1Pod[] {
    return this.#pods.store.byIndex(BY_ADDRESS, address.toString());
  }

  /** Whether a pod of this node has the address, and none with that UID. */
  isOfAnother(address: Address, uid: string): boolean {
    const pods = this.withAddress(address);
    return pods.length > 0 &&
      pods.every(({ metadata }) => metadata?.uid !== uid);
  }

  /** Calls back with each namespace that came, changed or went. */
  subscribeNamespaces(
    listener: (change: StoreChange<V1Namespace>) => void,
  ): Disposable {
    return this.#namespaces?.subscribe(listener) ??
      { [Symbol.dispose]: () => {} };
  }

  /** A pod's namespace: of the cache, else as it was read for the pod, else read now. */
  async #homeOf(
    { namespace, home }: Pick<PodFacts, "namespace" | "home">,
    { signal }: { signal: AbortSignal },
  ): Promise<V1Namespace | undefined> {
    return this.#namespaces?.store.get(namespace) ?? home ??
      await this.#client.tryGet(NAMESPACES, {
        name: namespace,
        metadataOnly: true,
        timeoutMs: LIVE_GET_MS,
        signal,
      });
  }
}

/** The Egresses that the pods of a namespace use by default, as annotations. */
function defaultsOf(namespace: V1Namespace | undefined): Annotations {
  return egressAnnotationsOf(namespace?.metadata?.annotations);
}

/** Whether the pod is a gateway follows from its labels, which no runtime hands over; it counts for pods that ask for egress. */
function hasToldEnough(
  { annotations }: PodQuery,
  defaults: Annotations,
): boolean {
  if (annotations === undefined) return false;
  const pod = { metadata: { annotations } };
  return !namesEgress(withDefaultEgresses(pod, defaults));
}

/** Whether the API server did not give what was asked for. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof KubeUnreachableError ||
    error instanceof KubeApiError ||
    isTimeout(error);
}

function addressTexts(pod: V1Pod): string[] {
  return podAddresses(pod).map((address) => address.toString());
}

function facts(
  pod: V1Pod | undefined,
  { namespace, name, annotations, from, home }: Pick<
    PodFacts,
    "namespace" | "name" | "annotations" | "from" | "home"
  >,
): PodFacts {
  const { uid, labels } = pod?.metadata ?? {};
  const known = { metadata: { annotations, ...(labels && { labels }) } };
  return {
    namespace,
    name,
    annotations: withDefaultEgresses(known, defaultsOf(home)) ?? {},
    from,
    isGateway: isGatewayPod(pod),
    home,
    ...(uid !== undefined && { uid }),
  };
}
