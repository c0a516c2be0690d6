import assert from "node:assert/strict";
import { Gate, sleep } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import { openLibc } from "../../../lib/linux/mod.ts";
import type { Link, Request } from "../../../lib/netlink/mod.ts";
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

Deno.test("PairDeletions delete a pair once, after a failure too, and not a link that has its index since", async () => {
  const links = [
    { index: 7, alias: "COIL-COORD-HUSK:cid:eth0" },
    { index: 8, alias: "COIL-COORD-HUSK:other:eth0" },
    { index: 9, alias: "COIL-COORD:cid:eth0" },
  ].map((link) => ({ ...link, kind: "veth" })) as Link[]; // all that is looked at
  const sent: string[] = [];
  let failures = 0;
  let lists = 0;
  await using deletions = new PairDeletions({
    listLinks: () => {
      lists++;
      return failures++ < 2
        ? Promise.reject(new Error("ENOBUFS"))
        : Promise.resolve(links);
    },
    tryExecute(requests: readonly Request[]) {
      sent.push(...requests.map((request) => request.describe()));
      return Promise.resolve(requests.map(() => undefined));
    },
    [Symbol.dispose]() {},
  });
  const { discard } = deletions.behind({});
  const key = { containerId: "cid", ifname: "eth0" };
  const isDone = async (count: number) => {
    await untilPasses(() => assert.equal(lists, count));
    await sleep(0);
  };
  await discard({ ...key, index: 7 });
  await discard({ ...key, index: 7 });
  await isDone(3);
  assert.deepEqual(sent, ["delete link 7"]);
  // It is free to come again.
  await discard({ ...key, index: 7 });
  await isDone(4);
  for (const index of [8, 9, 10]) {
    await discard({ ...key, index });
    await isDone(lists + 1);
  }
  assert.deepEqual(sent, ["delete link 7", "delete link 7"]);
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
