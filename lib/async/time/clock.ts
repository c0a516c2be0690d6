import { startTimer } from "./timer.ts";

/** Time that passes evenly, also when the machine's date is set; injected so that tests can turn it. */
export interface Clock {
  /** Milliseconds since some fixed moment. */
  nowMs(): number;
  /** Calls back once, after the time; disposal prevents it. */
  after(ms: number, callback: () => void): Disposable;
}

/** The machine's clock: CLOCK_MONOTONIC behind `performance.now()`. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after: startTimer,
};
