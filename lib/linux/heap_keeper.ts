import { sleep } from "../async/mod.ts";
import { filePagesReleaser, heapCollector } from "./memory.ts";

/** How often to measure memory. */
const INTERVAL_MS = 1_000;

/**
 * The process is idle if its heap has grown by less than this since the last measurement. The garbage of a few changes
 * each second is work: taken for idleness, it would be collected every few seconds, twice.
 */
const REST_BYTES = 64 * 1024;

/** Less garbage than this is not worth a collection while idle. */
const WORTH_BYTES = 3 * 1024 * 1024;

/** After so many idle measurements less garbage, down to this, is collected too. */
const LONG_REST_LOOKS = 4;
const LEAST_BYTES = 1024 * 1024;

/**
 * So many measurements after the last call, of which the last ones were idle, pages of the executable are given back when
 * so much more of files is in memory than right after the last time: the next call needs them again, which takes some
 * milliseconds. A second without work needs half of that, a look at something outside of the process twice.
 */
const CALM_LOOKS = 10;
const REST_LOOKS = 2;
const FILE_BYTES = 8 * 1024 * 1024;

/** So many measurements after a collection during work, its pages are returned to the kernel, even if some work goes on. */
const PAGES_LOOKS = 30;

/** Default: garbage that is collected during work. */
const BUSY_BYTES = 12 * 1024 * 1024;

/** Objects parsed between two measurements; parsing them yields to no timer. */
const OBJECTS_PER_LOOK = 50;

/** Of x86-64 and, with the usual configuration, aarch64. */
const PAGE_BYTES = 4096;

/** Memory of a process, in bytes. */
export interface HeldMemory {
  /** Objects of V8's heap and what they hold outside of it, garbage included. */
  readonly heap: number;
  /** Pages in memory, without those of files. */
  readonly resident: number;
  /** Pages of files in memory. */
  readonly files: number;
}

const NOTHING: HeldMemory = { heap: 0, resident: 0, files: 0 };

/** How a {@linkcode HeapKeeper} works. */
export interface HeapKeeperOptions {
  /** Whether a caller waits for an answer, and so would wait for the collection too. */
  readonly isBusy?: () => boolean;
  /** During work it collects when memory has grown by this. Default 12 MiB. */
  readonly busyBytes?: number;
  /** A collection during work gives back pages of the executable, too, when more of files is in memory. Default: none does. */
  readonly busyFileBytes?: number;
  /** What the process holds; replaced in tests. */
  readonly measure?: () => HeldMemory;
  /** Collects so many times in a row; replaced in tests. */
  readonly collect?: (times: number) => void;
  /** Gives back the pages of the executable; replaced in tests. */
  readonly releaseFile?: () => void;
}

/**
 * Keeps the process small: each second it measures how much memory has grown
 * since the last collection, and collects garbage when that is worth it, sooner
 * when the process is idle, and then it gives back pages of the executable, too.
 *
 * V8 alone lets the heap grow to twice what is in use before it cleans up, and
 * gives pages back late. A collection takes 20 to 50 ms, in which the process
 * does nothing else.
 */
export class HeapKeeper {
  readonly #options: HeapKeeperOptions;
  readonly #measure: () => HeldMemory;
  readonly #collect: (times: number) => void;
  readonly #releaseFile: () => void;
  /** What was held after the last collection. */
  #floor: HeldMemory;
  #atLastLook = 0;
  /** How many measurements in a row have found the process idle. */
  #rests = 0;
  /** In how many measurements in a row no caller has waited. */
  #calm = 0;
  #objects = 0;
  /** For how many measurements V8 has kept the pages of the last collection. */
  #looks = 0;
  /** Whether the last collection was a single one, which leaves its emptied pages to V8. */
  #keepsPages = false;

  constructor(options: HeapKeeperOptions = {}) {
    this.#options = options;
    this.#measure = options.measure ?? measureOwn;
    this.#collect = options.collect ?? heapCollector();
    this.#releaseFile = options.releaseFile ?? filePagesReleaser();
    this.#floor = NOTHING;
  }

  /** Counts objects received or processed; collects in the middle of a long list. */
  note(objects: number = 1): void {
    this.#objects += objects;
    if (this.#objects < OBJECTS_PER_LOOK) return;
    this.#objects = 0;
    if (this.#growth(this.#measure()) >= this.#busyBytes) this.#clean(1);
  }

  /** Measures every second until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.look();
      await sleep(INTERVAL_MS, { signal });
    }
  }

  /** Measures, and collects if that is worth it. */
  look(): void {
    const held = this.#measure();
    const isWaitedFor = this.#options.isBusy?.() === true;
    const isBusy = isWaitedFor ||
      Math.abs(held.heap - this.#atLastLook) >= REST_BYTES;
    this.#atLastLook = held.heap;
    this.#rests = isBusy ? 0 : this.#rests + 1;
    this.#calm = isWaitedFor ? 0 : this.#calm + 1;
    // V8 keeps the pages that a collection empties, and frees them in the next.
    const owesPages = this.#keepsPages && !isWaitedFor &&
      ++this.#looks >= PAGES_LOOKS;
    if (owesPages || this.#growth(held) >= this.#worthBytes) {
      this.#clean(isBusy && !owesPages ? 1 : 2);
    } else if (
      this.#calm >= CALM_LOOKS && this.#rests >= REST_LOOKS &&
      held.files - this.#floor.files >= FILE_BYTES
    ) {
      this.#releaseFile();
      this.#floor = { ...this.#floor, files: this.#measure().files };
      this.#rests = 0;
    }
  }

  /** Growth that is worth a collection: less, the longer the process has been idle. */
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
    const { busyFileBytes } = this.#options;
    if (
      times > 1 ||
      (busyFileBytes !== undefined && this.#measure().files > busyFileBytes)
    ) this.#releaseFile();
    this.#keepsPages = times === 1;
    this.#looks = 0;
    this.#floor = this.#measure();
    this.#atLastLook = this.#floor.heap;
    this.#objects = 0;
  }
}

/** Measures this process. */
export function measureOwn(): HeldMemory {
  // Deno.memoryUsage() would read a file, too, for what is not used here.
  const { used_heap_size, external_memory } = process
    .getBuiltinModule("node:v8").getHeapStatistics();
  const heap = used_heap_size + external_memory;
  return { ...NOTHING, ...tryPages(), heap };
}

/** Undefined while the process has no free file descriptor: then the heap alone counts. */
function tryPages(): Omit<HeldMemory, "heap"> | undefined {
  try {
    const [, all = 0, files = 0] = Deno.readTextFileSync("/proc/self/statm")
      .split(" ").map((pages) => Number(pages) * PAGE_BYTES);
    return { resident: all - files, files };
  } catch {
    return undefined;
  }
}
