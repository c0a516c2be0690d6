/** The longest delay that setTimeout() takes, 24.8 days: a longer one fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Calls back once after the time, however long that is; disposal prevents it. */
export function startTimer(ms: number, callback: () => void): Disposable {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const arm = (leftMs: number): void => {
    timer = leftMs > MAX_TIMER_MS
      ? setTimeout(() => arm(leftMs - MAX_TIMER_MS), MAX_TIMER_MS)
      : setTimeout(callback, leftMs);
  };
  arm(ms);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
