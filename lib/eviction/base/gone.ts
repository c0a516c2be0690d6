import { sleep } from "../../async/mod.ts";
import { KubeApiError } from "../../kube/mod.ts";

/** Makes a request about an object that may be gone, or another one by now. */
export async function unlessGone(
  request: () => Promise<unknown>,
): Promise<void> {
  try {
    await request();
  } catch (error) {
    const isGone = error instanceof KubeApiError &&
      (error.isNotFound || error.isConflict);
    if (!isGone) throw error;
  }
}

/** Looks until nothing is found. After the time it throws what `late` makes of the last find. */
export async function waitWhile<T>(
  look: () => Promise<T | undefined>,
  { timeoutMs, pollMs, signal, late }: {
    readonly timeoutMs: number;
    readonly pollMs: number;
    readonly signal: AbortSignal;
    readonly late: (found: T) => Error | Promise<Error>;
  },
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found === undefined) return;
    if (performance.now() >= deadline) throw await late(found);
    await sleep(pollMs, { signal });
  }
}
