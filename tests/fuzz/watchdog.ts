/**
 * Ends the process when a reader does not come back: nothing else can, since
 * it holds the thread that every time limit of a test runs on.
 */
import { MAX_BYTES } from "./mutate.ts";

/** What both sides know of the input that is tried; see {@linkcode Watchdog}. */
export interface WatchedMemory {
  /** Counts inputs up; 0: none is tried. */
  readonly number: Int32Array<SharedArrayBuffer>;
  /** Length of the text. */
  readonly length: Int32Array<SharedArrayBuffer>;
  readonly text: Uint8Array<SharedArrayBuffer>;
}

/** What the watching thread is given. */
export interface WatchOrder {
  readonly buffer: SharedArrayBuffer;
  readonly limitMs: number;
}

const HEAD_BYTES = 8;
/** A character of the input is three bytes at most, or six when JSON escapes it; the target's name comes before. */
const TEXT_BYTES = 6 * MAX_BYTES + 1024;

/** The parts of the memory. */
export function watchedMemory(buffer: SharedArrayBuffer): WatchedMemory {
  return {
    number: new Int32Array(buffer, 0, 1),
    length: new Int32Array(buffer, 4, 1),
    text: new Uint8Array(buffer, HEAD_BYTES),
  };
}

/** Watches, from a thread of its own, over what this thread tries. */
export class Watchdog implements Disposable {
  readonly #memory: WatchedMemory;
  readonly #worker: Worker;
  #number = 0;

  private constructor(memory: WatchedMemory, worker: Worker) {
    this.#memory = memory;
    this.#worker = worker;
  }

  /** Starts the thread; resolves when it watches. */
  static async start(limitMs: number): Promise<Watchdog> {
    const buffer = new SharedArrayBuffer(HEAD_BYTES + TEXT_BYTES);
    const url = new URL("watchdog_worker.ts", import.meta.url);
    const worker = new Worker(url, { type: "module" });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    worker.onmessage = () => resolve();
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage({ buffer, limitMs } satisfies WatchOrder);
    await promise;
    return new Watchdog(watchedMemory(buffer), worker);
  }

  /** Calls the function; the process ends with the text when that does not return in time. */
  watch(text: string, run: () => void): void {
    const { number, length, text: bytes } = this.#memory;
    const { written } = new TextEncoder().encodeInto(text, bytes);
    Atomics.store(length, 0, written);
    this.#number = this.#number % 0x7fff_ffff + 1;
    Atomics.store(number, 0, this.#number);
    try {
      run();
    } finally {
      Atomics.store(number, 0, 0);
    }
  }

  [Symbol.dispose](): void {
    this.#worker.terminate();
  }
}
