import { abortable, type WaitOptions } from "../time/sleep.ts";

/** Serialises sections of code. Fair: waiters get it in the order they came. */
export class Mutex {
  #tail: Promise<void> = Promise.resolve();
  #users = 0;

  /** Whether it is held or waited for. */
  get isLocked(): boolean {
    return this.#users > 0;
  }

  /** The lock, if it is free: then no other work comes in between. Disposing twice is harmless. */
  tryLock(): Disposable | undefined {
    if (this.#users > 0) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = promise;
    return { [Symbol.dispose]: this.#enter(resolve) };
  }

  /**
   * Waits for the lock and returns it: `using _lock = await mutex.lock()`. Disposing twice is harmless.
   *
   * A waiter whose signal aborts leaves the queue without holding up those behind it.
   *
   * @throws the signal's reason when it aborts before the lock is held
   */
  async lock(options: WaitOptions = {}): Promise<Disposable> {
    options.signal?.throwIfAborted();
    const free = this.tryLock();
    if (free !== undefined) return free;
    const before = this.#tail;
    const { promise: released, resolve } = Promise.withResolvers<void>();
    this.#tail = before.then(() => released);
    const release = this.#enter(resolve);
    try {
      await abortable(before, options.signal);
    } catch (error) {
      release();
      throw error;
    }
    return { [Symbol.dispose]: release };
  }

  /** Counts a user; returns what ends its use. */
  #enter(end: () => void): () => void {
    this.#users++;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#users--;
      end();
    };
  }
}

/** How a key's lock is taken. */
export interface KeyedLockOptions extends WaitOptions {
  /** The holder neither makes nor ends what the key stands for: `isLocked()` does not count it. */
  readonly upkeep?: boolean;
}

interface Entry {
  readonly mutex: Mutex;
  /** How many hold or wait for it, without upkeep. */
  counted: number;
}

/** Holds one {@linkcode Mutex} per key; an unused key costs nothing. */
export class KeyedMutex {
  readonly #entries = new Map<string, Entry>();

  /** The number of keys that are locked or waited for. */
  get size(): number {
    return this.#entries.size;
  }

  /** Whether the key is held or waited for, by more than upkeep. */
  isLocked(key: string): boolean {
    return (this.#entries.get(key)?.counted ?? 0) > 0;
  }

  /** Waits for the lock of the key. Other keys are not held up. @throws as {@linkcode Mutex.lock} */
  async lock(
    key: string,
    options: KeyedLockOptions = {},
  ): Promise<Disposable> {
    const entry = this.#entries.getOrInsertComputed(
      key,
      () => ({ mutex: new Mutex(), counted: 0 }),
    );
    let count = options.upkeep === true ? 0 : 1;
    entry.counted += count;
    const leave = () => {
      entry.counted -= count;
      count = 0;
      if (!entry.mutex.isLocked && this.#entries.get(key) === entry) {
        this.#entries.delete(key);
      }
    };
    try {
      const lock = await entry.mutex.lock(options);
      return {
        [Symbol.dispose]() {
          lock[Symbol.dispose]();
          leave();
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  }
}
