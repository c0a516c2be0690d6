import { sleep } from "../../lib/async/mod.ts";

export { sleep };

/**
 * The promise itself, which is awaited later: when it is rejected by then, the
 * test says so there. Without this, Deno takes it for an error that nobody
 * catches and ends all tests of the file.
 */
export function awaitedLater<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/**
 * Far more than anything takes, on a machine that is busy with all the tests, too; and less than 150 s,
 * after which coild looks at its clients and blocks although nothing was reported.
 */
const PATIENCE_MS = 140_000;

/** At most so long it waits between probes that take long themselves, as a start of kubectl does. */
const LONGEST_PAUSE_MS = 500;

/**
 * Calls `probe` until it returns something else than `undefined` or `false`, and returns that. Between
 * two calls it waits for 50 ms, or twice as long as the last one took.
 * @throws {Error} when the time is over; the cause is what the probe threw last.
 */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  options: { timeoutMs?: number; intervalMs?: number } = {},
): Promise<T> {
  const timeoutMs = options.timeoutMs ?? PATIENCE_MS;
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  while (true) {
    const started = performance.now();
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
      cause = undefined;
    } catch (err) {
      cause = err;
    }
    const now = performance.now();
    if (now > deadline) {
      const why = cause instanceof Error ? `: ${cause.message}` : "";
      throw new Error(`Cannot see ${what} after ${timeoutMs} ms${why}`, {
        cause,
      });
    }
    const pauseMs = Math.min(2 * (now - started), LONGEST_PAUSE_MS);
    await sleep(Math.max(options.intervalMs ?? 50, pauseMs));
  }
}

/** What has been the same for so long, and in so many looks: a machine that is slow is slow to look, too. */
const REST_MS = 2_000;
const REST_LOOKS = 10;

/**
 * What `read` returns when it no longer changes. What is to be seen again later is taken by this: what
 * still converges never comes back.
 *
 * @throws {Error} when it has not come to rest after {@linkcode PATIENCE_MS}
 */
export async function atRest<T extends string | number>(
  what: string,
  read: () => Promise<T> | T,
  { restMs = REST_MS }: { readonly restMs?: number } = {},
): Promise<T> {
  let last: T | undefined;
  let sinceMs = 0;
  let looks = 0;
  const { value } = await eventually(`${what} to be at rest`, async () => {
    const value = await read();
    if (value !== last) [last, sinceMs, looks] = [value, performance.now(), 0];
    looks++;
    const isLong = performance.now() - sinceMs >= restMs;
    return isLong && looks >= REST_LOOKS && { value };
  });
  return value;
}
