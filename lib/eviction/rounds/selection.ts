import { compareText, nameText } from "../../names/mod.ts";
import type { LivePod } from "../base/live_pod.ts";

/** Why a pod is not replaced. */
export type KeepReason = "no controller" | "static pod";

/** Which of some pods can be replaced. */
export interface Replaceable {
  /** Those whose controller recreates them, by node, namespace and name. */
  readonly toReplace: readonly LivePod[];
  /** Those that would be gone for good. */
  readonly kept: readonly { readonly pod: LivePod; readonly why: KeepReason }[];
}

/** Sorts pods by whether a controller recreates them, and by place. */
export function selectReplaceable(pods: readonly LivePod[]): Replaceable {
  const toReplace: LivePod[] = [];
  const kept: { pod: LivePod; why: KeepReason }[] = [];
  for (const pod of pods.toSorted(byPlace)) {
    if (pod.isStatic) kept.push({ pod, why: "static pod" });
    else if (pod.controller === undefined) {
      kept.push({ pod, why: "no controller" });
    } else toReplace.push(pod);
  }
  return { toReplace, kept };
}

function byPlace(a: LivePod, b: LivePod): number {
  return compareText(a.node, b.node) || compareText(nameText(a), nameText(b));
}
