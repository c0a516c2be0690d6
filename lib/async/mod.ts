/**
 * Locks, task groups, retries and waits, all cancelled by an `AbortSignal`; rates, and maps that stay small.
 *
 * @module
 */
export {
  Allowance,
  type AllowanceOptions,
  Allowances,
  type Rate,
} from "./allowance.ts";
export {
  Backoff,
  type BackoffOptions,
  retry,
  type RetryOptions,
} from "./backoff.ts";
export { BoundedMap } from "./bounded_map.ts";
export { type Clock, systemClock } from "./clock.ts";
export {
  CoalescedRunner,
  type CoalescedRunnerOptions,
} from "./coalesced_runner.ts";
export { Gate } from "./gate.ts";
export { LookLoop, type LookLoopOptions } from "./look_loop.ts";
export { type KeyedLockOptions, KeyedMutex, Mutex } from "./mutex.ts";
export { onAbort } from "./on_abort.ts";
export { SingleFlight } from "./single_flight.ts";
export {
  abortable,
  sleep,
  type SleepOptions,
  untilAborted,
  type WaitOptions,
  withTimeout,
} from "./sleep.ts";
export { TaskGroup } from "./task_group.ts";
export { startTimer } from "./timer.ts";
