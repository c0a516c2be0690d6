import { nameText } from "../../names/mod.ts";
import type { LivePod } from "../base/live_pod.ts";
import { replacePods, type ReplacePodsOptions } from "./pods.ts";

/** How often pods may turn up that were not there the time before. */
const MAX_ROUNDS = 5;
/** More of them say nothing new. */
const MAX_NAMES = 5;

export interface ReplaceAllOptions extends ReplacePodsOptions {
  /** Which pods there are to replace after a round. */
  readonly look: () => Promise<readonly LivePod[]>;
  /** Makes the error when pods turn up each time, of some of them with their nodes. */
  readonly comesBack: (pods: string) => Error;
}

/**
 * Replaces pods, and those that turn up in the meantime: pods that were just starting.
 *
 * @throws what `comesBack` makes, or what the first failure was
 */
export async function replaceAllPods(
  first: readonly LivePod[],
  options: ReplaceAllOptions,
): Promise<void> {
  let pods = first;
  for (let round = 1; pods.length > 0; round++) {
    if (round > MAX_ROUNDS) throw options.comesBack(someOf(pods));
    await replacePods(pods, options);
    pods = await options.look();
  }
}

function someOf(pods: readonly LivePod[]): string {
  return pods.slice(0, MAX_NAMES).map((pod) =>
    `${nameText(pod)} on ${pod.node}`
  ).join(", ");
}
