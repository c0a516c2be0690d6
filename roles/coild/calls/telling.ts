import type { Addressed } from "./attachment.ts";

/** Whom it concerns, and how it is told. Never throws. */
type Tell = (
  attachment: Addressed,
  options: { readonly signal: AbortSignal },
) => Promise<void>;

/**
 * Tells gateways of one new pod: as soon as it has its addresses, beside all
 * else that its ADD does. Disposing of it ends what is under way.
 */
export class Telling implements AsyncDisposable {
  readonly #tell: Tell;
  readonly #signal: AbortSignal;
  readonly #stop = new AbortController();
  #told: Promise<void> | undefined;

  constructor(signal: AbortSignal, tell: Tell) {
    this.#signal = signal;
    this.#tell = tell;
  }

  /** Begins, unless it has begun. */
  start(attachment: Addressed): void {
    const signal = AbortSignal.any([this.#signal, this.#stop.signal]);
    this.#told ??= this.#tell(attachment, { signal });
  }

  /** Returns when all gateways have answered, or were waited for long enough. */
  async done(): Promise<void> {
    await this.#told;
  }

  /** Gives up, and waits for what is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#told;
  }
}
