import { type Clock, systemClock } from "./clock.ts";
import { onAbort } from "./on_abort.ts";

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
  using _listening = onAbort(signal, () => reject(signal.reason));
  return await Promise.race([aborted, promise]);
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
  using _timer = clock.after(ms, () => {
    controller.abort(
      new DOMException(`Cannot finish within ${ms} ms`, "TimeoutError"),
    );
  });
  using _listening = onAbort(outer, () => controller.abort(outer?.reason));
  return await fn(controller.signal);
}

/** Whether an error is the reason of {@linkcode withTimeout}, or of `AbortSignal.timeout`. */
export function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === "TimeoutError";
}

/** Resolves, and never rejects, when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  onAbort(signal, resolve);
  return promise;
}
