import { jittered } from "./jittered.ts";
import { sleep, type WaitOptions } from "./sleep.ts";

/** How long {@linkcode waitWhile} waits. */
export interface WaitWhileOptions<T> extends WaitOptions {
  readonly timeoutMs: number;
  /** About the pause between two looks. */
  readonly pollMs: number;
  /** Makes the error of a wait that was in vain from the last find. */
  readonly late: (found: T) => Error | Promise<Error>;
}

/** Looks until nothing is found. @throws the error of `late` after the time, the signal's reason, or what a look throws */
export async function waitWhile<T>(
  look: () => Promise<T | undefined>,
  { timeoutMs, pollMs, signal, late }: WaitWhileOptions<T>,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found === undefined) return;
    if (performance.now() >= deadline) throw await late(found);
    await sleep(jittered(pollMs), { signal });
  }
}
