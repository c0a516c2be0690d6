import {
  abortable,
  type Clock,
  onAbort,
  sleep,
  systemClock,
  TaskGroup,
  withTimeout,
} from "../../../lib/async/mod.ts";
import { EGRESSES } from "../../../lib/api/mod.ts";
import {
  ENDPOINT_SLICES,
  type Informer,
  isPathSegment,
  type KubeClient,
  type KubeObject,
  type ResourceType,
  SERVICES,
  type V1EndpointSlice,
} from "../../../lib/kube/mod.ts";
import {
  type EgressFacts,
  SERVICE_NAME_LABEL,
} from "../../../lib/egress/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";
import { NotReadyError } from "../base/errors.ts";
import { NamespaceWatch } from "./namespace_watch.ts";

/** The runtime tries again by itself, so an API server that is away is not waited for. */
const LIVE_GET_MS = 5_000;
/** Likewise for the first list of the gateways' endpoints. */
const FIRST_LIST_MS = 5_000;

/**
 * How many Egresses of one pod the API server is asked for without finding them. After
 * so many, what is in no cache is taken for missing, until a cache has it.
 */
const MAX_MISSING = 16;

/** How an Egress is looked up. */
interface Asking {
  /** Whether the API server is asked for what no cache has. */
  readonly isAsked: boolean;
  readonly signal: AbortSignal;
}

/**
 * How many namespaces are followed at once, by three watches each: all of them
 * share a connection, which has room for a hundred. Annotations may name any
 * number; for Egresses of further ones the API server is asked each time, and
 * changes are seen by the periodic inspection.
 */
const MAX_FOLLOWED = 16;

/** One that pods no longer name is followed a little longer, as its next pod may be on its way. */
const IDLE_MS = 300_000;
const SWEEP_MS = 60_000;

interface Followed {
  readonly watch: NamespaceWatch;
  readonly stop: AbortController;
  usedMs: number;
}

/**
 * What the API server has of the Egresses that pods of this node name, of
 * their Services and EndpointSlices. A namespace is followed from when one of
 * its Egresses is asked for first.
 *
 * An object that the caches do not have is asked for once: it may be newer
 * than they are.
 */
export class EgressSource {
  readonly #client: KubeClient;
  readonly #isNamed: (namespace: string) => boolean;
  readonly #clock: Clock;
  readonly #followed = new Map<string, Followed>();
  readonly #listeners = new Set<(egress: string) => void>();
  readonly #tasks = new TaskGroup();

  /** `isNamed` says whether a pod of this node names an Egress of a namespace. */
  constructor(
    client: KubeClient,
    { isNamed, clock = systemClock }: {
      readonly isNamed: (namespace: string) => boolean;
      readonly clock?: Clock;
    },
  ) {
    this.#client = client;
    this.#isNamed = isNamed;
    this.#clock = clock;
  }

  /** The loops to run; each ends only by its signal. */
  get loops(): Record<string, (signal: AbortSignal) => Promise<void>> {
    return { "egress watches": (signal) => this.#run(signal) };
  }

  /** Calls back with the key of each Egress of which something changed. */
  subscribe(listener: (egress: string) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /**
   * Finds out about Egresses, by their keys.
   *
   * @throws {KubeUnreachableError} when one that is not cached cannot be asked for
   * @throws {NotReadyError} when the endpoints have not been listed yet
   */
  async find(
    refs: readonly NamespacedName[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<ReadonlyMap<string, EgressFacts>> {
    const found = new Map<string, EgressFacts>();
    let missing = 0;
    for (const ref of refs) {
      const isAsked = !this.#isCached(ref) && missing < MAX_MISSING &&
        isPathSegment(ref.name);
      const facts = await this.#factsOf(ref, { isAsked, signal });
      if (facts.egress === undefined) missing++;
      found.set(nameText(ref), facts);
    }
    return found;
  }

  /** Whether changes of a namespace's Egresses are reported. */
  isFollowed(namespace: string): boolean {
    return this.#followed.has(namespace);
  }

  #isCached(ref: NamespacedName): boolean {
    const key = nameText(ref);
    const watch = this.#followed.get(ref.namespace)?.watch;
    return watch?.egresses.store.get(key) !== undefined &&
      watch.services.store.get(key) !== undefined;
  }

  async #factsOf(ref: NamespacedName, options: Asking): Promise<EgressFacts> {
    const known = this.#followed.get(ref.namespace);
    const [egress, service] = await Promise.all([
      this.#read(known?.watch.egresses, EGRESSES, { ...options, ref }),
      // Its Service has its name.
      this.#read(known?.watch.services, SERVICES, { ...options, ref }),
    ]);
    // Not for a name without an Egress: any pod may name any number of them.
    const watch = egress && this.#follow(ref.namespace);
    if (egress === undefined || service === undefined) {
      return { egress, service, slices: [] };
    }
    const { signal } = options;
    const slices = watch === undefined
      ? await this.#listSlices(ref, signal)
      : await this.#slicesOf(ref, { watch, signal });
    return { egress, service, slices };
  }

  async #read<T extends KubeObject>(
    informer: Informer<T> | undefined,
    type: ResourceType<T>,
    { ref, isAsked, signal }: Asking & { readonly ref: NamespacedName },
  ): Promise<T | undefined> {
    // After a start all clients look at once: one list serves them.
    if (informer !== undefined) await isListed(informer, signal);
    const cached = informer?.store.get(nameText(ref));
    if (cached !== undefined || !isAsked) return cached;
    const call = { ...ref, timeoutMs: LIVE_GET_MS, signal };
    return await this.#client.tryGet(type, call);
  }

  /** Without them it is not known whether a gateway is available. */
  async #slicesOf(
    ref: NamespacedName,
    { watch, signal }: {
      readonly watch: NamespaceWatch;
      readonly signal: AbortSignal;
    },
  ): Promise<readonly V1EndpointSlice[]> {
    if (await isListed(watch.slices, signal)) {
      return watch.slicesOf(nameText(ref));
    }
    throw new NotReadyError(
      "Cannot find the gateways of Egresses: the API server has not listed their endpoints yet",
    );
  }

  async #listSlices(
    { namespace, name }: NamespacedName,
    signal: AbortSignal,
  ): Promise<readonly V1EndpointSlice[]> {
    const { items } = await this.#client.listAll(ENDPOINT_SLICES, {
      namespace,
      labelSelector: `${SERVICE_NAME_LABEL}=${name}`,
      signal,
    });
    return items;
  }

  /** Undefined when too many are followed already. */
  #follow(namespace: string): NamespaceWatch | undefined {
    const usedMs = this.#clock.nowMs();
    const known = this.#followed.get(namespace);
    if (known !== undefined) {
      known.usedMs = usedMs;
      return known.watch;
    }
    if (this.#followed.size >= MAX_FOLLOWED) return undefined;
    const watch = new NamespaceWatch(this.#client, namespace, (egress) => {
      for (const listener of this.#listeners) listener(egress);
    });
    const stop = new AbortController();
    this.#followed.set(namespace, { watch, stop, usedMs });
    this.#tasks.run(`egresses of ${namespace}`, async (signal) => {
      await watch.run(AbortSignal.any([signal, stop.signal]));
    });
    return watch;
  }

  async #run(signal: AbortSignal): Promise<void> {
    await using tasks = this.#tasks;
    using _listening = onAbort(signal, () => tasks.abort(signal.reason));
    for (;;) {
      await sleep(SWEEP_MS, { signal, clock: this.#clock });
      this.#sweep();
    }
  }

  /** Leaves those that no pod names. */
  #sweep(): void {
    const idleSinceMs = this.#clock.nowMs() - IDLE_MS;
    for (const [namespace, { stop, usedMs }] of this.#followed) {
      if (usedMs > idleSinceMs || this.#isNamed(namespace)) continue;
      stop.abort();
      this.#followed.delete(namespace);
    }
  }
}

/** Waits for the first list, not for long. Returns whether it has come. */
async function isListed(
  { hasSynced, synced }: Pick<Informer<KubeObject>, "hasSynced" | "synced">,
  signal: AbortSignal,
): Promise<boolean> {
  if (hasSynced) return true;
  try {
    await withTimeout(
      FIRST_LIST_MS,
      (limited) => abortable(synced, limited),
      { signal },
    );
    return true;
  } catch {
    // The time is over, unless the caller left.
    signal.throwIfAborted();
    return false;
  }
}
