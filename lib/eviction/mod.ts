/**
 * Replaces pods one by one: evicts each as soon as its PodDisruptionBudgets
 * allow it, and waits until its controller has another one ready. Waits for
 * an API server that is being restarted.
 *
 * Evictions: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
 *
 * @module
 */
export { EvictionError } from "./errors.ts";
export { WAITING_FLAGS, type WaitingValues } from "./flags.ts";
export { unlessGone, waitWhile } from "./gone.ts";
export { addressesOf, type LivePod, livePodOf } from "./live_pod.ts";
export { type Limits, nextPod } from "./order.ts";
export { Patience, type PatienceOptions } from "./patience.ts";
export {
  type ReplacementContext,
  replacePod,
  type Stage,
} from "./pod_replacement.ts";
export { CLEAR_LINE, Progress, type ProgressTerminal } from "./progress.ts";
export { replaceAllPods } from "./rounds.ts";
export {
  type KeepReason,
  type Selection,
  selectReplaceable,
} from "./selection.ts";
