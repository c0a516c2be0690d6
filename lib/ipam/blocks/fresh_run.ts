/**
 * Runs one thing, never twice at a time. Each caller gets the outcome of a run that began after its call, shared with
 * all who call in the meantime.
 */
export class FreshRun<T> {
  readonly #run: () => Promise<T>;
  #current: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(run: () => Promise<T>) {
    this.#run = run;
  }

  /** Joins the run that has not begun yet, or plans one. */
  do(): Promise<T> {
    this.#next ??= this.#runAfter(this.#current);
    return this.#next;
  }

  async #runAfter(previous: Promise<T> | undefined): Promise<T> {
    // Waits a turn in any case, so that the run is on record before it begins.
    await previous?.catch(() => {}); // the caller of that run handles its failure
    this.#current = this.#next;
    this.#next = undefined;
    return await this.#run();
  }
}
