import assert from "node:assert/strict";
import { Gate, sleep } from "../../../lib/async/mod.ts";
import { openLibc } from "../../../lib/linux/mod.ts";
import { PairDeletions } from "./pair_deletions.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

Deno.test("PairDeletions go on behind the callers' backs after a task that fails", async () => {
  await using deletions = PairDeletions.open();
  const { later } = deletions.behind({});
  const done: number[] = [];
  for (const number of [1, 2]) {
    later?.(async () => {
      done.push(number);
      throw new Error("no such socket");
    });
    // Until it has ended: all turns come before a timer.
    await sleep(1);
  }
  assert.deepEqual(done, [1, 2]);
});

/** The process's sockets, by their inodes. */
function openSockets(): Set<string> {
  const targets = [...Deno.readDirSync("/proc/self/fd")].map(({ name }) => {
    try {
      return Deno.readLinkSync(`/proc/self/fd/${name}`);
    } catch {
      return ""; // that of the directory
    }
  });
  return new Set(targets.filter((target) => target.startsWith("socket:")));
}

Deno.test("PairDeletions close their socket when all that uses it has ended", async () => {
  const before = openSockets();
  const deletions = PairDeletions.open();
  const [own, ...others] = openSockets().difference(before);
  assert.ok(own !== undefined && others.length === 0);
  const begun = new Gate();
  const gate = new Gate();
  let wasOpen = false;
  deletions.behind({}).later?.(async () => {
    begun.open();
    await gate.wait();
    wasOpen = openSockets().has(own);
  });
  await begun.wait();
  const end = deletions[Symbol.asyncDispose]();
  gate.open();
  await end;
  assert.ok(wasOpen);
  assert.ok(!openSockets().has(own));
});
