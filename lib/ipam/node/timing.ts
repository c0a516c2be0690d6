import { abortable } from "../../async/mod.ts";
import type { Clock } from "../base/ports.ts";

/** Waits on the given clock. Rejects with the signal's reason when that aborts first. */
export async function delay(
  delayMs: number,
  options: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  using _timer = options.clock.after(delayMs, resolve);
  await abortable(promise, options.signal);
}

/**
 * Runs `fn` with a signal that aborts with the outer one or when the time is up. Rejects then, whether or not `fn`
 * heeds its signal.
 */
export async function withDeadline<T>(
  fn: (signal: AbortSignal) => Promise<T>,
  options: {
    readonly clock: Clock;
    readonly signal: AbortSignal;
    readonly timeoutMs: number;
  },
): Promise<T> {
  const { clock, signal, timeoutMs } = options;
  const controller = new AbortController();
  const onAbort = () => controller.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  using _timer = clock.after(timeoutMs, () => {
    controller.abort(
      new DOMException(`Cannot finish within ${timeoutMs} ms`, "TimeoutError"),
    );
  });
  try {
    return await abortable(fn(controller.signal), controller.signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
