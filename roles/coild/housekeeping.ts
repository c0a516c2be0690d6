import { sleep } from "../../lib/async/mod.ts";
import { heapCollector } from "../../lib/linux/mod.ts";

/** How often to look. */
const INTERVAL_MS = 1_000;

/** Fewer calls than this leave too little behind to be worth a collection. */
const QUIET_CALLS = 50;

/** After so many calls it is done even if there is no quiet moment: two nodes full of pods. */
const BUSY_CALLS = 220;

/** What is watched, and what is done; replaced in tests. */
export interface HousekeepingOptions {
  /** How many calls have been answered since the start. */
  readonly calls: () => number;
  /** How many are under way. */
  readonly inFlight: () => number;
  readonly collect?: () => void;
}

/**
 * Keeps the daemon small.
 *
 * A wave of pods leaves more than 20 MiB of garbage behind, which V8 sees no
 * reason to collect while the heap may still grow: a server that was called in
 * waves stayed at 92 to 97 MiB, and goes back to 65 with two collections in
 * quiet moments; after one it stays at 75 to 80.
 */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #collect: () => void;
  #done = 0;
  #atLastLook = 0;

  constructor(options: HousekeepingOptions) {
    this.#options = options;
    this.#collect = options.collect ?? heapCollector({ times: 2 });
  }

  /** Looks every second until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(INTERVAL_MS, { signal });
      this.look();
    }
  }

  /** Collects if it is worth it and disturbs nobody: while pods come, the next one would wait for it. */
  look(): void {
    const { inFlight } = this.#options;
    const calls = this.#options.calls();
    const isQuiet = inFlight() === 0 && calls === this.#atLastLook;
    this.#atLastLook = calls;
    const fresh = calls - this.#done;
    if (fresh < (isQuiet ? QUIET_CALLS : BUSY_CALLS)) return;
    this.#done = calls;
    this.#collect();
  }
}
