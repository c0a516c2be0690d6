import { onAbort } from "../time/on_abort.ts";
import type { WaitOptions } from "../time/sleep.ts";

interface RunningTask {
  readonly name: string;
  readonly ended: Promise<void>;
}

/** Tasks by their names, each of which runs until its signal. */
export type Loops = Readonly<
  Record<string, (signal: AbortSignal) => Promise<void>>
>;

/**
 * Owns concurrent tasks: the first failure aborts the others, and {@linkcode TaskGroup.wait} rethrows it.
 *
 * The only place where a task is started without being awaited on the spot. A task that ends without an error leaves
 * the others running.
 */
export class TaskGroup implements AsyncDisposable {
  readonly #controller = new AbortController();
  readonly #running = new Map<symbol, RunningTask>();
  readonly #outer: AbortSignal | undefined;
  #attached: Disposable | undefined;
  #failure: { readonly error: unknown } | undefined;

  /** The tasks also end when the given signal aborts. */
  constructor(options: WaitOptions = {}) {
    this.#outer = options.signal;
    this.#attach();
  }

  /** The signal that each task gets. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The names of the tasks that have not ended. */
  get running(): string[] {
    return [...this.#running.values()].map((task) => task.name);
  }

  /**
   * Starts a task under a name, which says in reports what has not ended.
   *
   * An error that comes after the abort is taken as the way a task stops, not as a failure.
   */
  run(name: string, task: (signal: AbortSignal) => Promise<void>): void {
    this.#attach();
    const id = Symbol(name);
    const ended = this.#guard(task).finally(() => this.#running.delete(id));
    this.#running.set(id, { name, ended });
  }

  /** Starts all of some loops. */
  runAll(loops: Loops): void {
    for (const [name, loop] of Object.entries(loops)) this.run(name, loop);
  }

  /** Follows the outer signal; also again, after a wait that ended. */
  #attach(): void {
    this.#attached ??= onAbort(
      this.#outer,
      () => this.abort(this.#outer?.reason),
    );
  }

  async #guard(task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    // One turn later, so that run() never throws and the task is on record before it starts.
    await Promise.resolve();
    try {
      if (!this.signal.aborted) await task(this.signal);
    } catch (error) {
      if (!this.signal.aborted) {
        this.#failure = { error };
        this.#controller.abort(error);
      }
    }
  }

  /** Aborts the signal of every task. */
  abort(reason?: unknown): void {
    this.#controller.abort(reason);
  }

  /** Waits until every task has ended, also those started in the meantime. @throws the first failure of a task */
  async wait(): Promise<void> {
    await this.#drain();
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #drain(): Promise<void> {
    for (;;) {
      const [task] = this.#running.values();
      if (task === undefined) break;
      await task.ended;
    }
    this.#attached?.[Symbol.dispose]();
    this.#attached = undefined;
  }

  /** Aborts the tasks and waits for them. Never throws. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.abort();
    await this.#drain();
  }
}
