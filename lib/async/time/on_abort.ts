/**
 * Runs `fn` once when the signal aborts, or now if it has aborted. No listener stays behind on the signal after the
 * disposal. Without a signal nothing happens.
 */
export function onAbort(
  signal: AbortSignal | undefined,
  fn: () => void,
): Disposable {
  if (signal?.aborted) fn();
  else signal?.addEventListener("abort", fn, { once: true });
  return { [Symbol.dispose]: () => signal?.removeEventListener("abort", fn) };
}
