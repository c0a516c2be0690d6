import { sleep, type SleepOptions } from "./sleep.ts";

export interface BackoffOptions {
  /** The first delay. */
  readonly initialMs: number;
  /** No delay, jitter included, is longer. */
  readonly maxMs: number;
  /** Which part of each delay is random, 0 to 1. Default 0.5: between half and all of it. */
  readonly jitter?: number;
  /** A number from 0 to below 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

/** Computes delays that grow exponentially up to a limit, with jitter. */
export class Backoff {
  readonly #initialMs: number;
  readonly #maxMs: number;
  readonly #jitter: number;
  readonly #random: () => number;
  #baseMs: number;

  /** Starts with the first delay. */
  constructor(options: BackoffOptions) {
    this.#initialMs = options.initialMs;
    this.#maxMs = options.maxMs;
    this.#jitter = options.jitter ?? 0.5;
    this.#random = options.random ?? Math.random;
    this.#baseMs = options.initialMs;
  }

  /** Returns the next delay. */
  nextMs(): number {
    const baseMs = Math.min(this.#baseMs, this.#maxMs);
    this.#baseMs = Math.min(baseMs * 2, this.#maxMs);
    return baseMs * (1 - this.#jitter * this.#random());
  }

  /** Starts again with the first delay. */
  reset(): void {
    this.#baseMs = this.#initialMs;
  }
}

export interface RetryOptions extends SleepOptions {
  /** Gives the delays. Default: up to 100 ms, doubling up to 10 s, all of it random. */
  readonly backoff?: Backoff;
  /** Whether another attempt may help. Default: always. */
  readonly shouldRetry?: (error: unknown, attempt: number) => boolean;
  /** The most attempts to make. Default: no limit. */
  readonly maxAttempts?: number;
}

/**
 * Calls `fn` until it succeeds. `fn` gets the number of the attempt, from 1.
 *
 * @throws the last error of `fn` when it may not be tried again
 * @throws the signal's reason when it aborts before or between attempts
 */
export async function retry<T>(
  fn: (attempt: number) => Promise<T>,
  options: RetryOptions = {},
): Promise<T> {
  const backoff = options.backoff ??
    new Backoff({ initialMs: 100, maxMs: 10_000, jitter: 1 });
  const maxAttempts = options.maxAttempts ?? Infinity;
  for (let attempt = 1;; attempt++) {
    options.signal?.throwIfAborted();
    try {
      return await fn(attempt);
    } catch (error) {
      const again = attempt < maxAttempts && !options.signal?.aborted &&
        (options.shouldRetry?.(error, attempt) ?? true);
      if (!again) throw error;
    }
    await sleep(backoff.nextMs(), options);
  }
}
