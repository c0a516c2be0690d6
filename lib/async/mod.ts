/**
 * Locks, task groups, retries and waits, all cancelled by an `AbortSignal`; rates, and maps that stay small.
 *
 * @module
 */
export { Allowance, Allowances, type Rate } from "./locks/allowance.ts";
export { Backoff, retry } from "./time/backoff.ts";
export { BoundedMap } from "./locks/bounded_map.ts";
export { type Clock, systemClock } from "./time/clock.ts";
export { CoalescedRunner } from "./tasks/coalesced_runner.ts";
export { everyAbout } from "./time/every_about.ts";
export { forEachConcurrently } from "./tasks/concurrency.ts";
export { FreshRun } from "./tasks/fresh_run.ts";
export { Gate } from "./locks/gate.ts";
export { jittered } from "./time/jittered.ts";
export { LookLoop } from "./tasks/look_loop.ts";
export { KeyedMutex, Mutex } from "./locks/mutex.ts";
export { onAbort } from "./time/on_abort.ts";
export { settled } from "./tasks/settled.ts";
export { SingleFlight } from "./locks/single_flight.ts";
export {
  abortable,
  isTimeout,
  sleep,
  untilAborted,
  type WaitOptions,
  withTimeout,
} from "./time/sleep.ts";
export { type Loops, TaskGroup } from "./tasks/task_group.ts";
export { startTimer } from "./time/timer.ts";
export { waitWhile, type WaitWhileOptions } from "./time/wait_while.ts";
export { writeAll } from "./tasks/write_all.ts";
