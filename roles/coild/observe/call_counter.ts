/** Knows whether calls come. */
export class CallCounter {
  #started = 0;
  #inFlight = 0;
  #atLastLook = 0;

  /** Whether a call is under way, or one has come since this was asked last. */
  isBusy(): boolean {
    const came = this.#started !== this.#atLastLook;
    this.#atLastLook = this.#started;
    return came || this.#inFlight > 0;
  }

  /** Begins a look: the returned function returns whether no call has run since. */
  watch(): () => boolean {
    const started = this.#started;
    const wasIdle = this.#inFlight === 0;
    return () => wasIdle && this.#started === started;
  }

  /** Counts a call until it ends, however it ends. */
  async count<T>(call: () => Promise<T>): Promise<T> {
    this.#started++;
    this.#inFlight++;
    try {
      return await call();
    } finally {
      this.#inFlight--;
    }
  }
}
