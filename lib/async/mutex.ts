import { abortable, type WaitOptions } from "./sleep.ts";

/** Serialises sections of code. Fair: waiters get it in the order they came. */
export class Mutex {
  #tail: Promise<void> = Promise.resolve();
  #users = 0;

  /** Whether somebody holds or waits for it. */
  get isLocked(): boolean {
    return this.#users > 0;
  }

  /**
   * Waits for the lock and returns it: `using _lock = await mutex.lock()`. Disposing twice is harmless.
   *
   * A waiter whose signal aborts leaves the queue without holding up those behind it.
   */
  async lock(options: WaitOptions = {}): Promise<Disposable> {
    options.signal?.throwIfAborted();
    const before = this.#tail;
    const { promise: released, resolve } = Promise.withResolvers<void>();
    this.#tail = before.then(() => released);
    this.#users++;
    let held = true;
    const release = () => {
      if (!held) return;
      held = false;
      this.#users--;
      resolve();
    };
    try {
      await abortable(before, options.signal);
    } catch (error) {
      release();
      throw error;
    }
    return { [Symbol.dispose]: release };
  }
}

/** Holds one {@linkcode Mutex} per key; a key that nobody uses costs nothing. */
export class KeyedMutex {
  readonly #mutexes = new Map<string, Mutex>();

  /** The number of keys that are locked or waited for. */
  get size(): number {
    return this.#mutexes.size;
  }

  /** Whether somebody holds or waits for the key. */
  isLocked(key: string): boolean {
    return this.#mutexes.has(key);
  }

  /** Waits for the lock of the key. Other keys are not held up. */
  async lock(key: string, options: WaitOptions = {}): Promise<Disposable> {
    const mutex = this.#mutexes.get(key) ?? new Mutex();
    this.#mutexes.set(key, mutex);
    const forget = () => {
      if (!mutex.isLocked && this.#mutexes.get(key) === mutex) {
        this.#mutexes.delete(key);
      }
    };
    try {
      const lock = await mutex.lock(options);
      return {
        [Symbol.dispose]() {
          lock[Symbol.dispose]();
          forget();
        },
      };
    } catch (error) {
      forget();
      throw error;
    }
  }
}
