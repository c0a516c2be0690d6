import assert from "node:assert/strict";
import { NetworkMemory } from "./memory.ts";

Deno.test("NetworkMemory knows the network of each attachment, and which were added since", () => {
  const memory = new NetworkMemory();
  const [first, second] = ["c1", "c2"].map((containerId) => ({
    containerId,
    ifname: "eth0",
  })) as [{ containerId: string; ifname: string }, never];
  memory.remember(first, "a");
  const { number } = memory;
  assert.equal(memory.isAddedAfter(first, number), false);
  assert.equal(memory.isAddedAfter(second, number), false, "not known");
  memory.remember(second, "b");
  assert.equal(memory.isAddedAfter(first, number), false);
  assert.equal(memory.isAddedAfter(second, number), true);
  memory.remember(first, "c");
  assert.equal(memory.isAddedAfter(first, number), true, "added again");
  assert.equal(memory.networkOf(first), "c");
  memory.forget(first);
  assert.equal(memory.networkOf(first), undefined);
  assert.equal(memory.isAddedAfter(first, 0), false);
});
