import type { Addressed } from "./attachment.ts";

/** Sends the pod's addresses to the gateways that need them. Never throws. */
type Announce = (
  attachment: Addressed,
  options: { readonly signal: AbortSignal },
) => Promise<void>;

/**
 * Announces one new pod to its gateways as soon as it has addresses, beside
 * the rest of its ADD. Disposing of it ends what is under way.
 */
export class PodAnnouncement implements AsyncDisposable {
  readonly #announce: Announce;
  readonly #signal: AbortSignal;
  readonly #stop = new AbortController();
  #sent: Promise<void> | undefined;

  constructor(signal: AbortSignal, announce: Announce) {
    this.#signal = signal;
    this.#announce = announce;
  }

  /** Starts it, unless it has started. */
  start(attachment: Addressed): void {
    const signal = AbortSignal.any([this.#signal, this.#stop.signal]);
    this.#sent ??= this.#announce(attachment, { signal });
  }

  /** Returns when all gateways have answered, or their time is over. */
  async done(): Promise<void> {
    await this.#sent;
  }

  /** Gives up, and waits for what is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#sent;
  }
}
