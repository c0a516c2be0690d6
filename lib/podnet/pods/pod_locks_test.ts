import assert from "node:assert/strict";
import { settle } from "../../async/testing.ts";
import { PodLocks } from "./pod_locks.ts";

const POD = { namespace: "apps", name: "web" };
const { signal } = new AbortController();

/** Whether the second call waits for the first one. */
async function waits(
  locks: PodLocks,
  [first, second]: readonly [string, string],
): Promise<boolean> {
  const lock = (containerId: string) =>
    locks.lock({ containerId, ifname: "eth0" }, { pod: POD, signal });
  const held = await lock(first);
  let isIn = false;
  const later = lock(second).then((its) => {
    isIn = true;
    return its;
  });
  await settle();
  const isWaiting = !isIn;
  held[Symbol.dispose]();
  using _its = await later;
  return isWaiting;
}

Deno.test("PodLocks makes calls for one key follow each other, and in Calico mode those for one pod", async () => {
  for (const calico of [false, true]) {
    const locks = new PodLocks({ calico });
    assert.equal(await waits(locks, ["c1", "c1"]), true);
    assert.equal(await waits(locks, ["c1", "c2"]), calico);
  }
});
