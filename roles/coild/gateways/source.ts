import {
  abortable,
  type Clock,
  everyAbout,
  type Loops,
  onAbort,
  SingleFlight,
  sleep,
  systemClock,
  TaskGroup,
  withTimeout,
} from "../../../lib/async/mod.ts";
import { type Egress, EGRESSES } from "../../../lib/api/mod.ts";
import {
  ENDPOINT_SLICES,
  type Informer,
  isPathSegment,
  type KubeClient,
  type KubeObject,
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
 * How many namespaces are followed at once, by two watches each: all of them
 * share a connection, which has room for a hundred. Annotations may name any
 * number; for Egresses of further ones the API server is asked each time, and
 * changes are seen by the periodic inspection.
 */
const MAX_FOLLOWED = 16;

/** One that pods no longer name is followed a little longer, as its next pod may be on its way. */
const IDLE_MS = 300_000;
const SWEEP_MS = 60_000;

/** All Services of followed namespaces are read again about this often. */
const SERVICES_MS = 300_000;

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
 * An Egress that the cache does not have is asked for once: it may be newer
 * than that.
 */
export class EgressSource {
  readonly #client: KubeClient;
  readonly #isNamed: (namespace: string) => boolean;
  readonly #clock: Clock;
  readonly #followed = new Map<string, Followed>();
  readonly #listeners = new Set<(egress: string) => void>();
  readonly #tasks = new TaskGroup();
  readonly #reads = new SingleFlight<EgressFacts>();

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
  get loops(): Loops {
    return {
      "egress watches": (signal) => this.#run(signal),
      "egress services": (signal) => this.#readServices(signal),
    };
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
      const isAsked = missing < MAX_MISSING;
      const facts = await this.#factsOf(ref, { isAsked, signal });
      if (facts.egress === undefined) missing++;
      found.set(nameText(ref), facts);
    }
    return found;
  }

  /**
   * Finds out about Egresses, by their keys, from the API server itself: after a
   * start what is cached may be older than what an earlier coild knew. Those who
   * ask at once share an answer.
   *
   * @throws {KubeUnreachableError} when one cannot be asked for
   */
  async read(
    refs: readonly NamespacedName[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<ReadonlyMap<string, EgressFacts>> {
    const facts = refs.map(async (ref) => {
      const key = nameText(ref);
      const read = () => this.#read(ref, signal);
      return [key, await this.#reads.do(key, read)] as const;
    });
    return new Map(await Promise.all(facts));
  }

  /** Whether changes of a namespace's Egresses are reported. */
  isFollowed(namespace: string): boolean {
    return this.#followed.has(namespace);
  }

  async #factsOf(
    ref: NamespacedName,
    { isAsked, signal }: Asking,
  ): Promise<EgressFacts> {
    const egress = await this.#egressOf(ref, { isAsked, signal });
    if (egress === undefined) return { egress, service: undefined, slices: [] };
    // Not for a name without an Egress: any pod may name any number of them.
    const watch = this.#follow(ref.namespace);
    if (watch === undefined) return { egress, ...await this.#ask(ref, signal) };
    // The Service after them: it is known by its slices whether it is the same.
    const slices = await this.#slicesOf(ref, { watch, signal });
    const service = await watch.serviceOf(ref, { signal });
    return { egress, service, slices: service === undefined ? [] : slices };
  }

  async #egressOf(
    ref: NamespacedName,
    { isAsked, signal }: Asking,
  ): Promise<Egress | undefined> {
    const informer = this.#followed.get(ref.namespace)?.watch.egresses;
    // After a start all clients look at once: one list serves them.
    if (informer !== undefined) await isListed(informer, signal);
    const cached = informer?.store.get(nameText(ref));
    if (cached !== undefined || !isAsked || !isPathSegment(ref.name)) {
      return cached;
    }
    const call = { ...ref, timeoutMs: LIVE_GET_MS, signal };
    return await this.#client.tryGet(EGRESSES, call);
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

  async #read(ref: NamespacedName, signal: AbortSignal): Promise<EgressFacts> {
    const call = { ...ref, timeoutMs: LIVE_GET_MS, signal };
    const egress = await this.#client.tryGet(EGRESSES, call);
    return { egress, ...await this.#ask(ref, signal) };
  }

  /** The Service of an Egress, which has its name, and the EndpointSlices, in a namespace that is not followed. */
  async #ask(
    ref: NamespacedName,
    signal: AbortSignal,
  ): Promise<Omit<EgressFacts, "egress">> {
    const { namespace, name } = ref;
    const [service, { items }] = await Promise.all([
      this.#client.tryGet(SERVICES, { ...ref, timeoutMs: LIVE_GET_MS, signal }),
      this.#client.listAll(ENDPOINT_SLICES, {
        namespace,
        labelSelector: `${SERVICE_NAME_LABEL}=${name}`,
        signal,
      }),
    ]);
    return { service, slices: service === undefined ? [] : items };
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
    const watch = new NamespaceWatch(this.#client, {
      namespace,
      onChange: (egress) => {
        for (const listener of this.#listeners) listener(egress);
      },
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

  async #readServices(signal: AbortSignal): Promise<void> {
    await everyAbout(SERVICES_MS, () => {
      for (const { watch } of this.#followed.values()) watch.doubtServices();
    }, { signal, clock: this.#clock });
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
