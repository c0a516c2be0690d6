import { onAbort } from "../../async/mod.ts";
import type { Settings } from "../blocks/context.ts";

/** What {@linkcode AllocationWait} ends by. */
export interface AllocationWaitOptions
  extends Pick<Settings, "clock" | "requestTimeoutMs"> {
  /** The attachment's, as text. */
  readonly key: string;
  /** The caller's signal. */
  readonly signal: AbortSignal | undefined;
  /** Makes the error for when the time is up. */
  readonly onTimeout: () => Error;
}

/** One allocation that waits: until its caller gives up, its time is up, or {@linkcode AllocationWait.end} is called. */
export class AllocationWait implements Disposable {
  readonly key: string;
  readonly #controller = new AbortController();
  readonly #timer: Disposable;
  readonly #listening: Disposable;

  constructor(options: AllocationWaitOptions) {
    const { clock, signal, requestTimeoutMs, onTimeout } = options;
    this.key = options.key;
    this.#listening = onAbort(
      signal,
      () => this.#controller.abort(signal?.reason),
    );
    this.#timer = clock.after(
      requestTimeoutMs,
      () => this.end(onTimeout()),
    );
  }

  /** Aborts when the wait ends, with the error for the caller. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the wait with an error. */
  end(reason: Error): void {
    this.#controller.abort(reason);
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
    // mutate: only frees memory; it has ended.
    this.#listening[Symbol.dispose]();
  }
}
