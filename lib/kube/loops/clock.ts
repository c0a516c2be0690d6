import { abortable, startTimer } from "../../async/mod.ts";

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
  after: startTimer,
};

/** Waits so long by a clock. Rejects with the signal's reason when it aborts first. */
export async function waitFor(
  clock: Clock,
  ms: number,
  options: { signal: AbortSignal },
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  using _timer = clock.after(ms, resolve);
  await abortable(promise, options.signal);
}
