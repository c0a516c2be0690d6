import { Backoff, type Clock, onAbort, systemClock } from "../../async/mod.ts";

/** Of {@link WorkQueue.retry}: each delay is twice the one before, half of it random. */
const RETRY_DELAYS = { initialMs: 50, maxMs: 60_000 };

/** Called when a key changes its state, for metrics; must only take note. */
export interface QueueObserver {
  /** A key begins to wait; not when it waited already. */
  readonly onAdded: (key: string) => void;
  /** A worker has it. */
  readonly onTaken: (key: string) => void;
  /** The work on it has ended. */
  readonly onDone: (key: string) => void;
}

export interface WorkQueueOptions {
  readonly clock?: Clock;
  /** A number from 0 to below 1. Default `Math.random`. */
  readonly random?: () => number;
  readonly observer?: QueueObserver | undefined;
}

interface Delayed {
  readonly dueMs: number;
  readonly timer: Disposable;
}

/**
 * Keys to be worked on, each at most once in the queue and by at most one worker at a time: a key added while it is
 * worked on comes again after {@link WorkQueue.done}.
 */
export class WorkQueue implements Disposable {
  readonly #clock: Clock;
  readonly #options: WorkQueueOptions;
  /** In the order in which they are due. */
  readonly #ready = new Set<string>();
  readonly #working = new Set<string>();
  /** Added while worked on. */
  readonly #again = new Set<string>();
  readonly #delayed = new Map<string, Delayed>();
  readonly #backoffs = new Map<string, Backoff>();
  readonly #waiting = new Set<(key: string) => void>();

  constructor(options: WorkQueueOptions = {}) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** How many keys wait for a worker. */
  get size(): number {
    return this.#ready.size + this.#again.size;
  }

  /** Adds a key, now. */
  add(key: string): void {
    if (this.#ready.has(key) || this.#again.has(key)) return;
    this.#options.observer?.onAdded(key);
    if (this.#working.has(key)) this.#again.add(key);
    else this.#offer(key);
  }

  /** Adds a key later; of several times for one key the earliest counts. */
  addAfter(key: string, ms: number): void {
    if (ms <= 0) return this.add(key);
    const dueMs = this.#clock.nowMs() + ms;
    const delayed = this.#delayed.get(key);
    if (delayed !== undefined && delayed.dueMs <= dueMs) return;
    delayed?.timer[Symbol.dispose]();
    const timer = this.#clock.after(ms, () => {
      this.#delayed.delete(key);
      this.add(key);
    });
    this.#delayed.set(key, { dueMs, timer });
  }

  /** Adds a key after a delay that grows each time until {@link WorkQueue.forget}; returns the delay. */
  retry(key: string): number {
    const { random } = this.#options;
    const backoff = this.#backoffs.getOrInsertComputed(
      key,
      () => new Backoff({ ...RETRY_DELAYS, random }),
    );
    const ms = backoff.nextMs();
    this.addAfter(key, ms);
    return ms;
  }

  /** The key's work succeeded: its next retry begins with the first delay. */
  forget(key: string): void {
    this.#backoffs.delete(key);
  }

  /** Waits for the next key, which is the caller's until {@link WorkQueue.done}. */
  async next(options: { signal: AbortSignal }): Promise<string> {
    const { signal } = options;
    signal.throwIfAborted();
    const [key] = this.#ready;
    if (key !== undefined) {
      this.#ready.delete(key);
      this.#take(key);
      return key;
    }
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    using _listening = onAbort(signal, () => {
      // Not when a key was handed over already: it would be lost.
      if (this.#waiting.delete(resolve)) reject(signal.reason);
    });
    this.#waiting.add(resolve);
    return await promise;
  }

  /** Gives a key back after the work on it, successful or not. */
  done(key: string): void {
    this.#working.delete(key);
    this.#options.observer?.onDone(key);
    if (this.#again.delete(key)) this.#offer(key);
  }

  /** Gives a key to a worker that waits, or lets it wait for one. */
  #offer(key: string): void {
    const [first] = this.#waiting;
    if (first === undefined) {
      this.#ready.add(key);
      return;
    }
    this.#waiting.delete(first);
    this.#take(key);
    first(key);
  }

  #take(key: string): void {
    this.#working.add(key);
    this.#options.observer?.onTaken(key);
  }

  /** Forgets the delayed keys. */
  [Symbol.dispose](): void {
    for (const { timer } of this.#delayed.values()) timer[Symbol.dispose]();
    this.#delayed.clear();
  }
}
