import { Backoff, sleep, systemClock } from "../../async/mod.ts";
import type { KubeClient } from "../client/client.ts";
import { KubeApiError, KubeUnreachableError } from "../http/errors.ts";
import type { ListEnvelope } from "../http/options.ts";
import type { ListOptions, Selection } from "../http/options.ts";
import { keyOf, type ResourceType } from "../api/resource.ts";
import { Contact } from "./contact.ts";
import type { InformerOptions } from "./informer_options.ts";
import { Listeners } from "./listeners.ts";
import { isBehind, isRefusal, newReading, type Reading } from "./reading.ts";
import { Store, type StoreChange } from "./store.ts";
import type { KubeObject } from "../api/objects.ts";
import {
  endsInitialEvents,
  type WatchEvent,
  watchSeconds,
} from "../client/watch.ts";

const LIST_PAGE_SIZE = 500;
/** A watch that ends sooner, with nothing in it, counts as a failure. */
const SHORT_WATCH_MS = 1_000;
/** An API server that shuts down ends all of its watches at once: the next ones begin within this time. */
const CUT_WATCH_MS = 1_000;

/**
 * Keeps a {@link Store} like the API server's collection.
 *
 * Watches, with all objects at the beginning, one by one and from the server's cache; where the server cannot do that
 * (WatchList), it lists from the cache and watches from there on. Watches again from the last version seen when the
 * server or the network ends a watch; reads all again only when that version is too old, as soon as the cache has all
 * that was seen. Objects that went away unseen are reported as deleted then. Subscribers are called after the store
 * has all objects.
 */
export class Informer<T extends KubeObject> {
  /** The objects, as the transform returned them. */
  readonly store: Store<T>;
  /** Resolves after the first list. */
  readonly synced: Promise<void>;
  readonly #client: KubeClient;
  readonly #type: ResourceType<T>;
  readonly #options: InformerOptions<T>;
  readonly #listeners: Listeners<T>;
  readonly #contact: Contact;
  readonly #backoff: Backoff;
  readonly #markSynced: () => void;
  #hasSynced = false;
  /** Whether listeners get all that is in the store when the reading ends that goes on. */
  #isFilling = false;
  /** The last that began. */
  #reading: Reading<T> | undefined;
  /** Keys that the watch has brought, of each {@linkcode refresh} under way. */
  readonly #brought = new Set<Set<string>>();
  /** The version to watch from; undefined when a list is due. */
  #version: string | undefined;
  /** A list must not be older; undefined when only the newest will do. */
  #leastVersion: string | undefined;
  /** Whether no watch has gone on since the last list, or the last version that was too old: what is refused again must not be asked for without a growing pause. */
  #isFresh = true;
  /** Whether the server is not known to refuse watches that begin with all objects. */
  #canStream = true;

  constructor(
    client: KubeClient,
    type: ResourceType<T>,
    options: InformerOptions<T> = {},
  ) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.synced = promise;
    this.#markSynced = resolve;
    this.#client = client;
    this.#type = type;
    this.#options = options;
    this.store = new Store(options.indexes);
    this.#backoff = options.backoff ??
      new Backoff({ initialMs: 1_000, maxMs: 30_000, jitter: 1 });
    this.#listeners = new Listeners(type.plural);
    this.#contact = new Contact(type.plural);
    if (options.onChange !== undefined) this.#listeners.add(options.onChange);
  }

  /** Whether the first list is in the store. */
  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** The version that the store is at least of; undefined before the first list, and when the server is behind it. */
  get version(): string | undefined {
    return this.#leastVersion;
  }

  /** Milliseconds since the API server last showed that the store is current; a bookmark does about every minute. */
  get lastSyncAgeMs(): number {
    return this.#contact.ageMs;
  }

  /**
   * Calls back, synchronously, for each change from now on; with `replay` first for each object there is.
   *
   * A listener that throws is logged and called again next time.
   */
  subscribe(
    listener: (change: StoreChange<T>) => void,
    options: { replay?: boolean } = {},
  ): Disposable {
    const isDue = options.replay === true && !this.#isFilling;
    const replayed = isDue ? this.store : undefined;
    return this.#listeners.add(listener, replayed);
  }

  /** Lists and watches until the signal aborts; nothing else ends it. Runs once at a time. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#version !== undefined) await this.#watch(signal);
        else if (this.#canStream) await this.#stream(signal);
        else await this.#list(signal);
      } catch (err) {
        if (signal.aborted) return;
        this.#contact.failed(err);
        await this.#pause(err, signal);
      }
    }
  }

  /**
   * Reads the objects of a namespace again, as `keep` and `transform` judge them now. Listeners see those that come,
   * change and go by that. What the watch brings while they are read counts more.
   *
   * @throws {KubeApiError} or {KubeUnreachableError} when they cannot be listed, or while all objects are read: nothing
   * has changed then, and the caller tries again
   */
  async refresh(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): Promise<void> {
    const brought = new Set<string>();
    this.#brought.add(brought);
    const reading = this.#reading;
    try {
      // The newest: what the watch has deleted already must not come back.
      const selection = { ...this.#selection(), namespace, signal };
      const { items } = await this.#client.listAll(this.#type, selection);
      if (this.#reading !== reading || reading?.isComplete === false) {
        throw new KubeUnreachableError(
          `Cannot refresh ${this.#type.plural} of namespace "${namespace}": all are being read`,
        );
      }
      const isKnown = (item: T) => brought.has(keyOf(item));
      const changes = items.filter((item) => !isKnown(item))
        .map((item) => this.#judge(item));
      for (const change of changes) {
        if (change !== undefined) this.#listeners.emit(change);
      }
    } finally {
      this.#brought.delete(brought);
    }
  }

  /** Puts an object in whose version may be in already, or takes it out. */
  #judge(item: T): StoreChange<T> | undefined {
    const key = keyOf(item);
    const gone = this.store.delete(key);
    if (!this.#isWanted(item)) return gone;
    const change = this.#put(key, item);
    return gone === undefined || change === undefined
      ? change
      : { type: "updated", object: change.object, before: gone.object, key };
  }

  /** Reads all objects, and follows them from there on by the same watch. */
  async #stream(signal: AbortSignal): Promise<void> {
    const reading = this.#begin();
    try {
      await this.#watch(signal, reading);
    } catch (err) {
      if (isRefusal(err)) return void (this.#canStream = false);
      if (!reading.isComplete && isBehind(err)) this.#leastVersion = undefined;
      throw err;
    } finally {
      this.#emitAll(reading);
    }
  }

  #begin(): Reading<T> {
    const reading = newReading(this.store);
    this.#isFilling = reading.isFirst;
    this.#reading = reading;
    return reading;
  }

  async #list(signal: AbortSignal): Promise<void> {
    const reading = this.#begin();
    const onItem = (item: T) => this.#read(reading, item);
    const selection = { ...this.#selection(), signal };
    const atLeast = this.#versionWanted();
    let page: ListOptions | undefined = atLeast === undefined
      ? { ...selection, limit: LIST_PAGE_SIZE }
      : { ...selection, resourceVersion: atLeast };
    try {
      while (page !== undefined) {
        const list: ListEnvelope = await this.#client.listItems(
          this.#type,
          page,
          onItem,
        );
        // Something else answered, such as a proxy: what it leaves out is not gone.
        if (list.resourceVersion === "") {
          throw new KubeUnreachableError(
            `Cannot list ${this.#type.plural}: the answer has no resourceVersion`,
          );
        }
        page = list.continue === undefined ? undefined : {
          ...selection,
          limit: LIST_PAGE_SIZE,
          continue: list.continue,
        };
        if (page === undefined) this.#noteAll(reading, list.resourceVersion);
        else this.#version = undefined;
      }
    } catch (err) {
      if (isBehind(err)) this.#leastVersion = undefined;
      throw err;
    } finally {
      this.#emitAll(reading);
    }
  }

  /** The version that all objects are read of at least; undefined when only the newest will do. */
  #versionWanted(): string | undefined {
    return this.#hasSynced ? this.#leastVersion : "0";
  }

  #read(reading: Reading<T>, item: T): void {
    const { unseen, changes, isFirst } = reading;
    if (!this.#isWanted(item)) return this.#noteGone(reading, item);
    const key = keyOf(item);
    unseen.delete(key);
    const change = this.#put(key, item);
    if (change !== undefined && !isFirst) changes.push(change);
  }

  /** An object that was read, or that was there before, is not to be kept. */
  #noteGone({ unseen }: Reading<T>, item: T): void {
    const key = keyOf(item);
    if (this.store.get(key) !== undefined) unseen.add(key);
  }

  /** All objects of this version have been read: others are gone. */
  #noteAll(reading: Reading<T>, version: string): void {
    const { unseen, changes, isFirst } = reading;
    reading.isComplete = true;
    this.#noteVersion(version);
    for (const key of unseen) {
      const change = this.store.delete(key);
      if (change === undefined) continue;
      if (isFirst) changes.push({ ...change, type: "added" });
      changes.push(change);
    }
    // The watch goes on for minutes.
    unseen.clear();
    this.#contact.made();
    this.#isFresh = true;
    this.#hasSynced = true;
    this.#markSynced();
  }

  /** Also of half a reading: what is in the store already would not reach listeners the next time. */
  #emitAll(reading: Reading<T>): void {
    const { changes, isFirst } = reading;
    reading.isFirst = false;
    this.#isFilling = false;
    if (isFirst) this.#listeners.replay(this.store);
    for (const change of changes.splice(0)) this.#listeners.emit(change);
  }

  /** Follows the collection; with a reading from all its objects on. */
  async #watch(signal: AbortSignal, reading?: Reading<T>): Promise<void> {
    const { idleTimeoutMs } = this.#options;
    const startMs = performance.now();
    const lastedMs = () => performance.now() - startMs;
    const isShort = () => lastedMs() < SHORT_WATCH_MS;
    const timeoutSeconds = watchSeconds();
    let events = 0;
    let isOpen = false;
    const watch = this.#client.watch(this.#type, {
      ...this.#selection(),
      resourceVersion: this.#version ?? this.#versionWanted(),
      sendInitialEvents: reading !== undefined,
      timeoutSeconds,
      idleTimeoutMs,
      signal,
      onOpen: () => {
        isOpen = true;
        this.#contact.made();
      },
    });
    try {
      for await (const event of watch) {
        events++;
        this.#contact.made();
        if (reading?.isComplete === false) {
          this.#handleFirst(reading, event);
          continue;
        }
        this.#handle(event);
        this.#isFresh = false;
        if (event.type !== "BOOKMARK") this.#backoff.reset();
      }
    } catch (err) {
      // An ERROR event: the server cannot go on from here, and might never.
      if (isOpen && err instanceof KubeApiError) this.#version = undefined;
      throw err;
    } finally {
      const isReading = reading?.isComplete === false;
      if (isOpen && !isShort() && !isReading) this.#isFresh = false;
    }
    // However long it took: a reading that starts over each time needs growing pauses.
    if (reading?.isComplete === false) {
      throw new KubeUnreachableError(
        `Cannot list ${this.#type.plural}: the watch ended before all objects had come`,
      );
    }
    if (!isShort()) {
      this.#backoff.reset();
      // By its own time, which is random, or cut off.
      if (lastedMs() >= timeoutSeconds * 1000) return;
      return await this.#sleep(CUT_WATCH_MS * Math.random(), signal);
    }
    if (events === 0) {
      throw new KubeUnreachableError(
        `Cannot watch ${this.#type.plural}: the watch ended at once`,
      );
    }
    // A server that ends each watch so soon must not be asked without a pause.
    await this.#sleep(this.#backoff.nextMs(), signal);
  }

  /** An event before all objects have come. */
  #handleFirst(reading: Reading<T>, event: WatchEvent<T>): void {
    const { type, object } = event;
    if (type === "DELETED") return this.#noteGone(reading, object);
    if (type !== "BOOKMARK") return this.#read(reading, object);
    const version = object.metadata?.resourceVersion;
    if (version === undefined || !endsInitialEvents(event)) return;
    this.#noteAll(reading, version);
    this.#emitAll(reading);
  }

  #handle({ type, object }: WatchEvent<T>): void {
    const key = keyOf(object);
    const version = object.metadata?.resourceVersion;
    const change = type === "BOOKMARK"
      ? undefined
      : type !== "DELETED" && this.#isWanted(object)
      ? this.#put(key, object)
      : this.store.delete(key);
    if (type !== "BOOKMARK") {
      for (const brought of this.#brought) brought.add(key);
    }
    if (version !== undefined) this.#noteVersion(version);
    if (change !== undefined) this.#listeners.emit(change);
  }

  #noteVersion(version: string): void {
    this.#version = version;
    this.#leastVersion = version;
  }

  #isWanted(object: T): boolean {
    return this.#options.keep?.(object) ?? true;
  }

  #put(key: string, object: T): StoreChange<T> | undefined {
    const { transform } = this.#options;
    const kept = transform === undefined
      ? withoutManagedFields(object)
      : transform(object);
    return this.store.set(key, kept);
  }

  #selection(): Selection {
    const { namespace, labelSelector, fieldSelector, metadataOnly } =
      this.#options;
    return { namespace, labelSelector, fieldSelector, metadataOnly };
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    await sleep(ms, { signal, clock: this.#options.clock ?? systemClock });
  }

  async #pause(err: unknown, signal: AbortSignal): Promise<void> {
    let wantedMs = 0;
    if (err instanceof KubeApiError) {
      wantedMs = Math.min(err.retryAfterMs ?? 0, 30_000);
      // Too old a version; or the kind or the permission went away and came back.
      if (!err.isTransient) this.#version = undefined;
      // After an outage: it has grown while the server did not answer.
      if (err.isGone && !this.#isFresh) this.#backoff.reset();
      if (err.isGone) this.#isFresh = true;
    } else if (!(err instanceof KubeUnreachableError)) {
      this.#version = undefined;
    }
    try {
      await this.#sleep(wantedMs + this.#backoff.nextMs(), signal);
    } catch (reason) {
      if (!signal.aborted) throw reason;
    }
  }
}

/** Often half of an object, and used only by the server, which keeps them when an update has none. */
function withoutManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata?.managedFields === undefined) return object;
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}
