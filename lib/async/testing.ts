/**
 * Clocks for tests of all that takes one, and waiting for what has no clock.
 *
 * @module
 */
import type { Clock } from "./time/clock.ts";
import { sleep } from "./time/sleep.ts";

/** A {@linkcode Clock} that stands still until it is turned. */
export class FakeClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ dueMs: number; callback: () => void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  after(ms: number, callback: () => void): Disposable {
    const timer = { dueMs: this.#nowMs + ms, callback };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }

  /** How many timers wait. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Lets time pass; timers fire in their order, and what they wake gets to run. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      await settle();
      const [next] = [...this.#timers].filter((t) => t.dueMs <= endMs)
        .sort((a, b) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.callback();
    }
    this.#nowMs = endMs;
    await settle();
  }
}

/** A {@linkcode Clock} on which no time passes: each timer fires at once, and its delay is noted. */
export class RecordingClock implements Clock {
  /** In ms, in the order of the timers. */
  readonly delays: number[] = [];
  readonly #onTimer: (count: number) => void;

  /** `onTimer` gets the number of timers so far. */
  constructor(onTimer: (count: number) => void = () => {}) {
    this.#onTimer = onTimer;
  }

  nowMs(): number {
    return 0;
  }

  after(ms: number, callback: () => void): Disposable {
    this.#onTimer(this.delays.push(ms));
    queueMicrotask(callback);
    return { [Symbol.dispose]() {} };
  }
}

/** Waits for what runs until the signal; throws its error when it ends before that. */
export async function untilStopped(
  running: Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await running;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** How long something may take; far more than it does, on a busy machine, too. */
const PATIENCE_MS = 60_000;

/** Waits, in real time, until the check passes; throws what it threw last. */
export async function untilPasses(
  check: () => void | Promise<void>,
): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await sleep(5);
  }
}

/** Waits, in real time, until nothing was counted for so long; by short sleeps, since a busy machine stops the process for longer. */
export async function untilQuiet(
  count: () => number,
  quietMs: number,
): Promise<void> {
  let before = count();
  for (let quiet = 0; quiet < quietMs; quiet += 5) {
    await sleep(5);
    if (count() === before) continue;
    before = count();
    quiet = 0;
  }
}

/** Lets everything happen that needs no timer and no answer. */
export async function settle(turns: number = 60): Promise<void> {
  for (let i = 0; i < turns; i++) await Promise.resolve();
}
