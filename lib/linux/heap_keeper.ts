import { sleep } from "../async/mod.ts";
import { heapCollector } from "./memory.ts";

/** How often to look. */
const INTERVAL_MS = 2_000;

/** Fewer objects than this leave too little behind to be worth a collection. */
const WORTH_CHANGES = 500;

/** As many as this are not waited for the next look. */
const MANY_CHANGES = 5_000;

/**
 * Keeps the process small: after many changes it collects garbage at once.
 *
 * V8 lets the heap grow to twice what is in use before it cleans up, and 50,000
 * blocks come in as 100 MB of JSON of which little is kept. A collection
 * takes some 50 ms.
 */
export class HeapKeeper {
  readonly #collect: () => void;
  #changes = 0;
  #atLastLook = 0;
  /** Whether it collected amid changes, after which some were left. */
  #wasBusy = false;

  constructor(options: { readonly collect?: () => void } = {}) {
    this.#collect = options.collect ?? heapCollector();
  }

  /** Counts an object that came in. Of a long list, it collects in between. */
  note(): void {
    if (++this.#changes >= MANY_CHANGES) this.look();
  }

  /** Looks every two seconds until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.look();
      await sleep(INTERVAL_MS, { signal });
    }
  }

  /** Collects if there was enough change, and once more when all is quiet. */
  look(): void {
    const isQuiet = this.#changes === this.#atLastLook;
    this.#atLastLook = this.#changes;
    if (isQuiet ? !this.#wasBusy : this.#changes < WORTH_CHANGES) return;
    this.#wasBusy = !isQuiet;
    this.#changes = 0;
    this.#atLastLook = 0;
    this.#collect();
  }
}
