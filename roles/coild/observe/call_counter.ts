/** Counts calls: how many ended, how many are under way. */
export class CallCounter {
  #ended = 0;
  #inFlight = 0;

  /** How many calls have ended. */
  get ended(): number {
    return this.#ended;
  }

  /** How many calls are under way. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Counts a call until it ends, however it ends. */
  async count<T>(call: () => Promise<T>): Promise<T> {
    this.#inFlight++;
    try {
      return await call();
    } finally {
      this.#inFlight--;
      this.#ended++;
    }
  }
}
