/**
 * Replaces pods one by one: evicts each as soon as its PodDisruptionBudgets
 * allow it, and waits until its controller has another one ready. Waits for
 * an API server that is being restarted.
 *
 * Evictions: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
 *
 * @module
 */
export { EvictionError } from "./base/errors.ts";
export { WAITING_FLAGS } from "./base/flags.ts";
export { addressesOf, type LivePod, livePodOf } from "./base/live_pod.ts";
export { nextPod } from "./rounds/order.ts";
export { Patience } from "./base/patience.ts";
export { type ReplacementContext, replacePod } from "./pod/pod_replacement.ts";
export {
  CLEAR_LINE,
  Progress,
  type ProgressTerminal,
} from "./rounds/progress.ts";
export { replaceAllPods } from "./rounds/rounds.ts";
export { type Replaceable, selectReplaceable } from "./rounds/selection.ts";
