/** Time that passes evenly, whatever happens to the machine's date; injected so that tests can turn it. */
export interface Clock {
  /** Milliseconds since some fixed moment. */
  nowMs(): number;
  /** Calls back once, after the time; disposal prevents it. */
  after(ms: number, callback: () => void): Disposable;
}

/** The runtime's monotonic clock. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
};

/** Waits so long by a clock. Rejects with the signal's reason when it aborts first. */
export async function waitFor(
  clock: Clock,
  ms: number,
  options: { signal: AbortSignal },
): Promise<void> {
  const { signal } = options;
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  using _timer = clock.after(ms, resolve);
  try {
    await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
