import {
  abortable,
  Allowances,
  Backoff,
  BoundedMap,
  type Clock,
  sleep,
  systemClock,
  withTimeout,
} from "../../async/mod.ts";
import { getLogger, type Logger } from "../../telemetry/mod.ts";
import type { KubeClient } from "../client/client.ts";
import { KubeApiError, KubeUnreachableError } from "../http/errors.ts";
import type { CallOptions } from "../http/options.ts";
import { EVENTS } from "../api/resource.ts";
import type { CoreV1Event, ObjectReference } from "../api/objects.ts";

const MAX_PENDING = 1_000;
const MAX_REMEMBERED = 4_096;
/** The same event after a longer pause is a new one. */
const AGGREGATION_MS = 10 * 60_000;
/** client-go's limits of one object's events (its EventSourceObjectSpamFilter): a burst, then one in five minutes. */
const OF_OBJECT = { burst: 25, perSecond: 1 / (5 * 60) };
const REQUEST_TIMEOUT_MS = 5_000;
const FLUSH_MS = 1_000;
const RETRY = { initialMs: 1_000, maxMs: 30_000, jitter: 1 };

/** The content of an Event about an object. */
export interface EventInfo {
  readonly type: "Normal" | "Warning";
  /** One word in CamelCase, for machines. */
  readonly reason: string;
  /** For people. */
  readonly message: string;
  /** Of the Event object. Events that differ only in these are the same: it has the last one's. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

export interface EventRecorderOptions {
  /** Who reports. */
  readonly component: string;
  /** Node on which the reporter runs. */
  readonly host?: string | undefined;
  readonly clock?: Clock;
}

/** One event as it is in the API server, or is to be. */
interface Entry {
  /** Of the object in the API server. The same at each attempt: an answer that is lost leaves no second object. */
  readonly name: string;
  readonly ref: ObjectReference;
  info: EventInfo;
  readonly firstTime: string;
  lastTime: string;
  lastMs: number;
  count: number;
  isStored: boolean;
}

/**
 * Writes Events of the core group. The same event about one object is one Event with a count; what one object can
 * cause is limited; nothing that goes wrong here reaches the caller.
 */
export class EventRecorder {
  readonly #client: KubeClient;
  readonly #options: EventRecorderOptions;
  readonly #clock: Clock;
  readonly #log: Logger = getLogger("events");
  /** In the order of use. */
  readonly #entries = new BoundedMap<string, Entry>(MAX_REMEMBERED);
  readonly #allowances: Allowances;
  readonly #pending = new Set<string>();
  #wake: (() => void) | undefined;
  #dropped = 0;

  constructor(client: KubeClient, options: EventRecorderOptions) {
    this.#client = client;
    this.#options = options;
    const { clock = systemClock } = options;
    this.#clock = clock;
    const nowMs = () => clock.nowMs();
    this.#allowances = new Allowances(OF_OBJECT, {
      max: MAX_REMEMBERED,
      nowMs,
    });
  }

  /** How many events were left out, because of the limits. */
  get dropped(): number {
    return this.#dropped;
  }

  /** How many events are not written yet. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Takes an event to be written soon by {@link EventRecorder.run}. Never throws and never waits. */
  event(ref: ObjectReference, info: EventInfo): void {
    const nowMs = this.#clock.nowMs();
    if (!this.#isAllowed(ref) || this.#pending.size >= MAX_PENDING) {
      this.#dropped++;
      return;
    }
    const key = [
      ...[ref.apiVersion, ref.kind, ref.namespace, ref.name, ref.uid],
      ...[info.type, info.reason, info.message],
    ].join("\u0000");
    const now = new Date().toISOString();
    const old = this.#entries.get(key);
    if (old !== undefined && nowMs - old.lastMs < AGGREGATION_MS) {
      old.count++;
      old.info = info;
      old.lastMs = nowMs;
      old.lastTime = now;
      this.#entries.set(key, old);
    } else {
      const times = { firstTime: now, lastTime: now, lastMs: nowMs };
      const name = nameOf(ref);
      const counted = { count: 1, isStored: false };
      this.#entries.set(key, { name, ref, info, ...times, ...counted });
    }
    this.#pending.add(key);
    this.#wake?.();
  }

  /** Writes events until the signal aborts, and then those that are left, for a second at most. */
  async run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(RETRY);
    while (!signal.aborted) {
      const [key] = this.#pending;
      if (key === undefined) {
        await this.#waitForWork(signal);
        continue;
      }
      const isWritten = await this.#write(key, signal);
      if (isWritten) backoff.reset();
      if (isWritten || signal.aborted) continue;
      const pauseMs = backoff.nextMs();
      await sleep(pauseMs, { signal, clock: this.#clock }).catch(() => {});
    }
    await withTimeout(FLUSH_MS, (limited) => this.#flush(limited));
  }

  /** Writes what is left, until one cannot be written. */
  async #flush(signal: AbortSignal): Promise<void> {
    for (const key of [...this.#pending]) {
      if (signal.aborted || !await this.#write(key, signal)) return;
    }
  }

  /** False when it should be tried again. */
  async #write(key: string, signal: AbortSignal): Promise<boolean> {
    const entry = this.#entries.get(key);
    this.#pending.delete(key);
    if (entry === undefined) return true;
    try {
      await this.#send(entry, signal);
      return true;
    } catch (err) {
      const again = signal.aborted || err instanceof KubeUnreachableError ||
        err instanceof KubeApiError && err.isTransient;
      if (again) this.#pending.add(key);
      else this.#dropped++;
      this.#log.debug("Cannot write an event", {
        reason: entry.info.reason,
        object: entry.ref.name,
        err,
      });
      return !again;
    }
  }

  async #send(entry: Entry, signal: AbortSignal): Promise<void> {
    const call = { signal, timeoutMs: REQUEST_TIMEOUT_MS };
    if (entry.isStored && await this.#update(entry, call)) return;
    const isNew = await this.#create(entry, call);
    entry.isStored = true;
    if (!isNew) await this.#update(entry, call);
  }

  /** False when it is there, because only the answer of an earlier request was lost. */
  async #create(entry: Entry, call: CallOptions): Promise<boolean> {
    try {
      await this.#client.create(EVENTS, this.#eventOf(entry), call);
      return true;
    } catch (err) {
      if (err instanceof KubeApiError && err.isAlreadyExists) return false;
      throw err;
    }
  }

  /** False when it is not there: Events live an hour. */
  async #update(entry: Entry, call: CallOptions): Promise<boolean> {
    const { name, ref, info: { annotations }, count, lastTime } = entry;
    const change = {
      count,
      lastTimestamp: lastTime,
      ...annotations && { metadata: { annotations } },
    };
    try {
      await this.#client.patch(
        EVENTS,
        { name, namespace: namespaceOf(ref) },
        change,
        { ...call, kind: "merge" },
      );
      return true;
    } catch (err) {
      if (err instanceof KubeApiError && err.isNotFound) return false;
      throw err;
    }
  }

  #eventOf(entry: Entry): CoreV1Event {
    const { name, ref, info, count, firstTime, lastTime } = entry;
    const { component, host } = this.#options;
    return {
      metadata: {
        name,
        namespace: namespaceOf(ref),
        ...info.annotations && { annotations: info.annotations },
      },
      involvedObject: { ...ref },
      type: info.type,
      reason: info.reason,
      message: info.message.slice(0, 1024),
      source: { component, ...(host === undefined ? {} : { host }) },
      reportingComponent: component,
      reportingInstance: host ?? "",
      firstTimestamp: firstTime,
      lastTimestamp: lastTime,
      count,
    };
  }

  #isAllowed({ kind, namespace = "", name }: ObjectReference): boolean {
    return this.#allowances.of(`${kind}/${namespace}/${name}`).take();
  }

  async #waitForWork(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    // Aborted or not: run() looks.
    await abortable(promise, signal).catch(() => {});
    this.#wake = undefined;
  }
}

function namespaceOf({ namespace = "default" }: ObjectReference): string {
  return namespace;
}

function nameOf({ name }: ObjectReference): string {
  const suffix = crypto.randomUUID().replaceAll("-", "").slice(0, 16);
  return `${name}.${suffix}`;
}
