/** Lets concurrent callers with the same key share one call. */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Promise<T>>();

  /** Whether a call of the key is under way. */
  isFlying(key: string): boolean {
    return this.#flights.has(key);
  }

  /** Joins the call of the key that is under way, or starts it. An error reaches all who share it. */
  do(key: string, fn: () => Promise<T>): Promise<T> {
    const current = this.#flights.get(key);
    if (current !== undefined) return current;
    const flight = this.#fly(key, fn);
    this.#flights.set(key, flight);
    return flight;
  }

  async #fly(key: string, fn: () => Promise<T>): Promise<T> {
    // One turn later, so that the flight is on record before it can end.
    await Promise.resolve();
    try {
      return await fn();
    } finally {
      this.#flights.delete(key);
    }
  }
}
