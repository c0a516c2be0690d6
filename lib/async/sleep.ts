import { type Clock, systemClock } from "./clock.ts";

/** Options of everything here that can wait. */
export interface WaitOptions {
  /** Ends the wait: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of what waits for a time. */
export interface SleepOptions extends WaitOptions {
  /** Another clock than the machine's. */
  readonly clock?: Clock;
}

/** Waits for the given time. Rejects with the signal's reason as soon as it aborts. */
export async function sleep(
  ms: number,
  { signal, clock = systemClock }: SleepOptions = {},
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  using _timer = clock.after(ms, resolve);
  await abortable(promise, signal);
}

/**
 * Waits for the promise, or rejects with the signal's reason when that aborts first.
 *
 * The work behind the promise goes on; only the waiting ends. No listener stays behind.
 */
export async function abortable<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return await promise;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * Runs `fn` with a signal that aborts when the outer one does or the time is up, and waits for it.
 *
 * The reason of a timeout is a `DOMException` named "TimeoutError". Unlike `AbortSignal.timeout`, no timer outlives
 * the call.
 */
export async function withTimeout<T>(
  ms: number,
  fn: (signal: AbortSignal) => Promise<T>,
  { signal: outer, clock = systemClock }: SleepOptions = {},
): Promise<T> {
  const controller = new AbortController();
  const onAbort = () => controller.abort(outer?.reason);
  using _timer = clock.after(ms, () => {
    controller.abort(
      new DOMException(`Cannot finish within ${ms} ms`, "TimeoutError"),
    );
  });
  if (outer?.aborted) onAbort();
  else outer?.addEventListener("abort", onAbort, { once: true });
  try {
    return await fn(controller.signal);
  } finally {
    outer?.removeEventListener("abort", onAbort);
  }
}

/** Resolves, and never rejects, when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  return promise;
}
