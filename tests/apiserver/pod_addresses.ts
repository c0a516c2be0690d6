/** What pods' interfaces have, as tests of coild's end see it. */
import assert from "node:assert/strict";
import { inPod, type Sandbox } from "./coild_lab.ts";

/** Addresses of the pod's interfaces as its namespace has them. */
export async function addressesInside(
  pod: Sandbox,
): Promise<readonly string[]> {
  const text = await inPod(pod, "ip", "-br", "addr", "show", "scope", "global");
  return [...text.matchAll(/([0-9a-f.:]+)\/(?:32|128)/g)].map((m) =>
    m[1] ?? ""
  );
}

/** Fails when two pods have one address. */
export async function assertNoDuplicates(
  pods: readonly Sandbox[],
): Promise<void> {
  const owners = new Map<string, string>();
  for (const pod of pods) {
    for (const address of await addressesInside(pod)) {
      assert.equal(owners.get(address), undefined, `${address} of ${pod.name}`);
      owners.set(address, pod.name);
    }
  }
}
