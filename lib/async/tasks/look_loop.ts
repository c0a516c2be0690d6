import { Backoff } from "../time/backoff.ts";
import { Gate } from "../locks/gate.ts";
import { jittered } from "../time/jittered.ts";
import { sleep } from "../time/sleep.ts";

/** Removals come in bursts: a table is flushed route by route. */
const BURST_MS = 10;

/** The first and the longest pause after a repair: a program that breaks things all the time does not make a storm. */
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 500;

/** After so long without a repair, the next one is followed by the first pause again. */
const CALM_MS = 10_000;

export interface LookLoopOptions<T> {
  /** All there is to look at. */
  readonly all: readonly T[];
  /** How often, about, to look at everything without a request. */
  readonly everyMs: number;
  /** Looks at these parts and repairs them. Returns whether anything had to be repaired. */
  readonly look: (
    parts: ReadonlySet<T>,
    signal: AbortSignal,
  ) => Promise<boolean>;
  /** Called when a look failed; the parts are looked at again. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Looks at parts of something when asked to, joined to one look when they come
 * at once, and at everything from time to time. After a repair or a failure it
 * pauses, longer each time, up to half a second.
 */
export class LookLoop<T> {
  readonly #options: LookLoopOptions<T>;
  readonly #due = new Set<T>();
  readonly #backoff = new Backoff({
    initialMs: FIRST_PAUSE_MS,
    maxMs: MAX_PAUSE_MS,
    jitter: 0,
  });
  #asked = new Gate();
  #repairedAtMs = -Infinity;

  constructor(options: LookLoopOptions<T>) {
    this.#options = options;
  }

  /** Asks for a look that starts after this call. */
  want(parts: readonly T[]): void {
    if (parts.length === 0) return;
    for (const part of parts) this.#due.add(part);
    this.#asked.open();
  }

  /** Looks until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { all, everyMs } = this.#options;
    const later = () => performance.now() + jittered(everyMs);
    let wholeAtMs = later();
    for (;;) {
      const leftMs = wholeAtMs - performance.now();
      await this.#asked.waitAtMost(Math.max(0, leftMs), { signal });
      if (performance.now() >= wholeAtMs) {
        wholeAtMs = later();
        this.want(all);
      }
      await sleep(BURST_MS, { signal });
      if (this.#due.size === 0) continue;
      this.#asked = new Gate();
      const parts = new Set(this.#due);
      this.#due.clear();
      await this.#look(parts, signal);
    }
  }

  async #look(parts: ReadonlySet<T>, signal: AbortSignal): Promise<void> {
    const { look, onFailure } = this.#options;
    let isQuiet = false;
    try {
      isQuiet = !await look(parts, signal);
    } catch (error) {
      signal.throwIfAborted();
      onFailure(error);
      this.want([...parts]);
    }
    if (isQuiet) return;
    const now = performance.now();
    if (now - this.#repairedAtMs > CALM_MS) this.#backoff.reset();
    this.#repairedAtMs = now;
    await sleep(this.#backoff.nextMs(), { signal });
  }
}
