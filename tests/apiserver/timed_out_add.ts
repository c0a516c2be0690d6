import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { CallError, type Coild, type Sandbox } from "./coild_lab.ts";

/**
 * Calls ADD until one leaves a BlockRequest behind; all of them must time out.
 * An ADD that times out before its BlockRequest is stored aborts the POST.
 */
export async function addUntilRequested(
  coild: Coild,
  pod: Sandbox,
  hasRequest: () => Promise<boolean>,
): Promise<void> {
  const outcomes: string[] = [];
  await eventually(`a BlockRequest for ${pod.name}`, async () => {
    const outcome = await coild.add(pod).then(() => "OK", outcomeOf);
    outcomes.push(outcome);
    // What the probe throws is tried again, so another outcome is judged below.
    return outcome !== "DeadlineExceeded" || await hasRequest();
  });
  assert.deepEqual([...new Set(outcomes)], ["DeadlineExceeded"]);
}

function outcomeOf(error: unknown): string {
  return error instanceof CallError ? error.status : String(error);
}
