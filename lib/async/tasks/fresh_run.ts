/**
 * Runs one thing, never twice at a time. Each caller gets the outcome of a run that began after its call, shared with
 * all who call before it begins.
 */
export class FreshRun<T> {
  readonly #run: () => Promise<T>;
  readonly #rest: (() => Promise<void>) | undefined;
  #current: Promise<unknown> | undefined;
  #next: Promise<T> | undefined;

  /** `rest` is waited for before a run begins. */
  constructor(run: () => Promise<T>, rest?: () => Promise<void>) {
    this.#run = run;
    this.#rest = rest;
  }

  /** Joins the run that has not begun yet, or plans one. @throws what the run throws, or the rest */
  do(): Promise<T> {
    this.#next ??= this.#runAfter(this.#current);
    return this.#next;
  }

  async #runAfter(previous: Promise<unknown> | undefined): Promise<T> {
    try {
      // Waits a turn in any case, so that the run is on record before it begins.
      await previous;
      await this.#rest?.();
    } finally {
      // Its failure is its callers', and its outcome is not kept.
      this.#current = this.#next?.then(() => {}, () => {});
      this.#next = undefined;
    }
    return await this.#run();
  }
}
