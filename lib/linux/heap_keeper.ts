import { sleep } from "../async/mod.ts";
import { heapCollector } from "./memory.ts";

/** How often to look. */
const INTERVAL_MS = 1_000;

/**
 * What has grown by less than this since the last look is at rest. A trickle of garbage, such as a few changes each
 * second leave, is work: taken for rest, it would be collected every few seconds, twice.
 */
const REST_BYTES = 64 * 1024;

/** Less garbage than this is not worth a collection at rest. */
const WORTH_BYTES = 3 * 1024 * 1024;

/** When all has been at rest for so many looks, the last bit of garbage is collected too, down to this. */
const LONG_REST_LOOKS = 4;
const LEAST_BYTES = 1024 * 1024;

/** How many looks after a collection during work its pages are given back to the kernel, although some work goes on. */
const PAGES_LOOKS = 30;

/** By default, during work, it collects when there is as much as this. */
const BUSY_BYTES = 12 * 1024 * 1024;

/** How many objects may come in between two looks; parsing them yields to no timer. */
const OBJECTS_PER_LOOK = 50;

/** What a process holds, in bytes. */
export interface HeldMemory {
  /** Objects of V8's heap and what they hold outside of it, garbage included. */
  readonly heap: number;
  /** Pages in memory, those of the executable included. */
  readonly resident: number;
}

export interface HeapKeeperOptions {
  /** Whether a caller waits for an answer, and so would wait for the collection too. */
  readonly isBusy?: () => boolean;
  /** During work it collects when memory has grown by this. Default 12 MiB. */
  readonly busyBytes?: number;
  /** What the process holds; replaced in tests. */
  readonly measure?: () => HeldMemory;
  /** Collects so many times in a row; replaced in tests. */
  readonly collect?: (times: number) => void;
}

/**
 * Keeps the process small by what it holds: each second it looks how much
 * memory has grown since the last collection, and collects garbage when that
 * is worth it, sooner when all is at rest.
 *
 * V8 alone lets the heap grow to twice what is in use before it cleans up, and
 * gives pages back late. A collection takes 20 to 50 ms, in which the process
 * does nothing else.
 */
export class HeapKeeper {
  readonly #options: HeapKeeperOptions;
  readonly #measure: () => HeldMemory;
  readonly #collect: (times: number) => void;
  /** What was held after the last collection. */
  #floor: HeldMemory;
  #atLastLook = 0;
  /** How many looks in a row have found all at rest. */
  #rests = 0;
  #objects = 0;
  /** How many looks the pages of the last collection are kept by V8 already. */
  #looks = 0;
  /** Whether the last collection was a single one, which leaves its emptied pages to V8. */
  #keepsPages = false;

  constructor(options: HeapKeeperOptions = {}) {
    this.#options = options;
    this.#measure = options.measure ?? measureOwn;
    this.#collect = options.collect ?? heapCollector();
    this.#floor = { heap: 0, resident: 0 };
  }

  /** Counts objects that came in, or that were gone through. Of a long list, it collects in between. */
  note(objects: number = 1): void {
    this.#objects += objects;
    if (this.#objects < OBJECTS_PER_LOOK) return;
    this.#objects = 0;
    if (this.#growth(this.#measure()) >= this.#busyBytes) this.#clean(1);
  }

  /** Looks every second until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.look();
      await sleep(INTERVAL_MS, { signal });
    }
  }

  /** Collects if it is worth it. */
  look(): void {
    const held = this.#measure();
    const isWaitedFor = this.#options.isBusy?.() === true;
    const isBusy = isWaitedFor ||
      Math.abs(held.heap - this.#atLastLook) >= REST_BYTES;
    this.#atLastLook = held.heap;
    this.#rests = isBusy ? 0 : this.#rests + 1;
    // V8 keeps the pages that a collection empties, and frees them in the next.
    const owesPages = this.#keepsPages && !isWaitedFor &&
      ++this.#looks >= PAGES_LOOKS;
    if (!owesPages && this.#growth(held) < this.#worthBytes) return;
    this.#clean(isBusy && !owesPages ? 1 : 2);
  }

  /** The less of it is collected, the longer all has been at rest. */
  get #worthBytes(): number {
    if (this.#rests === 0) return this.#busyBytes;
    if (this.#keepsPages) return -Infinity;
    return this.#rests < LONG_REST_LOOKS ? WORTH_BYTES : LEAST_BYTES;
  }

  get #busyBytes(): number {
    return this.#options.busyBytes ?? BUSY_BYTES;
  }

  #growth({ heap, resident }: HeldMemory): number {
    return Math.max(heap - this.#floor.heap, resident - this.#floor.resident);
  }

  #clean(times: number): void {
    this.#collect(times);
    this.#keepsPages = times === 1;
    this.#looks = 0;
    this.#floor = this.#measure();
    this.#atLastLook = this.#floor.heap;
    this.#objects = 0;
  }
}

function measureOwn(): HeldMemory {
  const { external, heapUsed, rss } = Deno.memoryUsage();
  return { heap: heapUsed + external, resident: rss };
}
