/**
 * Locks, task groups, retries and waits, all cancelled by an `AbortSignal`; rates, and maps that stay small.
 *
 * @module
 */
export { Allowance, Allowances, type Rate } from "./allowance.ts";
export { Backoff, retry } from "./backoff.ts";
export { BoundedMap } from "./bounded_map.ts";
export { type Clock, systemClock } from "./clock.ts";
export { CoalescedRunner } from "./coalesced_runner.ts";
export { forEachConcurrently } from "./concurrency.ts";
export { Gate } from "./gate.ts";
export { jittered } from "./jittered.ts";
export { LookLoop } from "./look_loop.ts";
export { KeyedMutex, Mutex } from "./mutex.ts";
export { onAbort } from "./on_abort.ts";
export { settled } from "./settled.ts";
export { SingleFlight } from "./single_flight.ts";
export {
  abortable,
  isTimeout,
  sleep,
  untilAborted,
  type WaitOptions,
  withTimeout,
} from "./sleep.ts";
export { TaskGroup } from "./task_group.ts";
export { startTimer } from "./timer.ts";
export { writeAll } from "./write_all.ts";
