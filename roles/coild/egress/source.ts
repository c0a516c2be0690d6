import { abortable, withTimeout } from "../../../lib/async/mod.ts";
import type { EgressRef } from "../../../lib/announce/mod.ts";
import {
  type Egress,
  EGRESS_SELECTOR,
  EGRESSES,
} from "../../../lib/api/mod.ts";
import {
  ENDPOINT_SLICES,
  Informer,
  isPathSegment,
  type KubeClient,
  type KubeObject,
  type ResourceType,
  SERVICES,
  type V1EndpointSlice,
  type V1Service,
} from "../../../lib/kube/mod.ts";
import { type EgressFacts, egressKey } from "../cluster/egress_clients.ts";
import {
  SERVICE_NAME_LABEL,
  transformEgress,
  transformService,
  transformSlice,
} from "../cluster/egress_transform.ts";
import { NotReadyError } from "../base/errors.ts";
import { informerBackoff } from "../cluster/informer_backoff.ts";

/** The runtime tries again by itself, so an API server that is away is not waited for. */
const LIVE_GET_MS = 5_000;
/** Likewise for the first list of the gateways' endpoints. */
const FIRST_LIST_MS = 5_000;

/**
 * How many Egresses of one pod the API server is asked for. An annotation has
 * room for a hundred thousand names; what is in no cache after so many is
 * taken for missing, until a cache has it.
 */
const MAX_ASKED = 16;

/** How an Egress is looked up. */
interface Asking {
  /** Whether the API server is asked for what no cache has. */
  readonly isAsked: boolean;
  readonly signal: AbortSignal;
}

/** Index of slices by the Service they belong to. */
const BY_SERVICE = "service";

/**
 * What the API server has of Egresses: all of them, and of Services and
 * EndpointSlices those of Egresses, which the server selects by their labels.
 *
 * An object that the caches do not have is asked for once: it may be newer
 * than they are.
 */
export class EgressSource {
  readonly #client: KubeClient;
  readonly #egresses: Informer<Egress>;
  readonly #services: Informer<V1Service>;
  readonly #slices: Informer<V1EndpointSlice>;

  constructor(client: KubeClient) {
    this.#client = client;
    const ofEgresses = { labelSelector: EGRESS_SELECTOR };
    this.#egresses = new Informer(client, EGRESSES, {
      transform: transformEgress,
      backoff: informerBackoff(),
    });
    this.#services = new Informer(client, SERVICES, {
      ...ofEgresses,
      transform: transformService,
      backoff: informerBackoff(),
    });
    this.#slices = new Informer(client, ENDPOINT_SLICES, {
      ...ofEgresses,
      transform: transformSlice,
      backoff: informerBackoff(),
      indexes: { [BY_SERVICE]: (slice) => [serviceKeyOf(slice)] },
    });
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Record<string, (signal: AbortSignal) => Promise<void>> {
    return {
      "egress informer": (signal) => this.#egresses.run(signal),
      "egress service informer": (signal) => this.#services.run(signal),
      "egress endpoint informer": (signal) => this.#slices.run(signal),
    };
  }

  /** Resolves after the first lists; never where the cluster has no such kind. */
  async synced(): Promise<void> {
    await Promise.all([
      this.#egresses.synced,
      this.#services.synced,
      this.#slices.synced,
    ]);
  }

  /** Calls back with the key of each Egress of which something changed. */
  subscribe(listener: (egress: string) => void): Disposable {
    const stack = new DisposableStack();
    stack.use(this.#egresses.subscribe(({ key }) => listener(key)));
    stack.use(this.#services.subscribe(({ key }) => listener(key)));
    stack.use(
      this.#slices.subscribe(({ object }) => listener(serviceKeyOf(object))),
    );
    return stack;
  }

  /**
   * Finds out about Egresses, by their keys.
   *
   * @throws {KubeUnreachableError} when one that is not cached cannot be asked for
   * @throws {NotReadyError} when the endpoints have not been listed yet
   */
  async find(
    refs: readonly EgressRef[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<ReadonlyMap<string, EgressFacts>> {
    const found = new Map<string, EgressFacts>();
    let unknown = 0;
    for (const ref of refs) {
      const isKnown = this.#isCached(ref);
      if (!isKnown) unknown++;
      const isAsked = !isKnown && unknown <= MAX_ASKED &&
        isPathSegment(ref.name);
      const facts = await this.#factsOf(ref, { isAsked, signal });
      found.set(egressKey(ref), facts);
    }
    return found;
  }

  #isCached(ref: EgressRef): boolean {
    const key = egressKey(ref);
    return this.#egresses.store.get(key) !== undefined &&
      this.#services.store.get(key) !== undefined;
  }

  async #factsOf(ref: EgressRef, options: Asking): Promise<EgressFacts> {
    const [egress, service] = await Promise.all([
      this.#read(this.#egresses, EGRESSES, { ...options, ref }),
      // Its Service has its name.
      this.#read(this.#services, SERVICES, { ...options, ref }),
    ]);
    if (egress === undefined || service === undefined) {
      return { egress, service, slices: [] };
    }
    await this.#slicesListed(options.signal);
    const slices = this.#slices.store.byIndex(BY_SERVICE, egressKey(ref));
    return { egress, service, slices };
  }

  async #read<T extends KubeObject>(
    informer: Informer<T>,
    type: ResourceType<T>,
    { ref, isAsked, signal }: Asking & { readonly ref: EgressRef },
  ): Promise<T | undefined> {
    const cached = informer.store.get(egressKey(ref));
    if (cached !== undefined || !isAsked) return cached;
    const call = { ...ref, timeoutMs: LIVE_GET_MS, signal };
    return await this.#client.tryGet(type, call);
  }

  /** Without them it is not known whether a gateway is available. */
  async #slicesListed(signal: AbortSignal): Promise<void> {
    if (this.#slices.hasSynced) return;
    try {
      await withTimeout(
        FIRST_LIST_MS,
        (limited) => abortable(this.#slices.synced, limited),
        { signal },
      );
    } catch (cause) {
      signal.throwIfAborted();
      throw new NotReadyError(
        "Cannot find the gateways of Egresses: the API server has not listed their endpoints yet",
        { cause },
      );
    }
  }
}

function serviceKeyOf({ metadata }: V1EndpointSlice): string {
  const service = metadata?.labels?.[SERVICE_NAME_LABEL] ?? "";
  return `${metadata?.namespace ?? ""}/${service}`;
}
