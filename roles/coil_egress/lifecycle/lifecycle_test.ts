import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { type FakeAnswer, FakeTransport } from "../../../lib/kube/testing.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { Lifecycle } from "./lifecycle.ts";

let lines: string[] = [];

const ALIVE: FakeAnswer = { body: { metadata: { name: "internet-0" } } };
const DELETED: FakeAnswer = {
  body: { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
};
const GONE: FakeAnswer = { status: 404, body: {} };

/** A gateway that has synced, and how it is told to end. */
function fixture(
  { pod, flows, timeoutMs = 60_000 }: {
    readonly pod: () => FakeAnswer | Promise<FakeAnswer>;
    readonly flows: readonly (number | undefined)[];
    readonly timeoutMs?: number;
  },
) {
  const lifecycle = new Lifecycle({ hasSynced: true, isFailing: false });
  const counts = [...flows];
  let looks = 0;
  let toldOfDraining = 0;
  const stop = new AbortController();
  const end = () =>
    lifecycle.end(stop.signal, {
      ownPod: {
        client: new KubeClient(new FakeTransport(pod)),
        identity: { namespace: "nat", pod: "internet-0" },
      },
      timeoutMs,
      leastMs: 20,
      lookMs: 5,
      countFlows: () => {
        looks++;
        return Promise.resolve(counts.length > 1 ? counts.shift() : counts[0]);
      },
      onDraining: () => toldOfDraining++,
    });
  return {
    lifecycle,
    end,
    stop,
    looks: () => looks,
    toldOfDraining: () => toldOfDraining,
  };
}

Deno.test("Lifecycle is ready from the first sync on while the kernel does not refuse, and open to announcements as long as it serves", () => {
  const sync = { hasSynced: false, isFailing: true };
  const lifecycle = new Lifecycle(sync);
  assert.match(String(lifecycle.check()), /not in the kernel yet/);
  assert.match(lifecycle.closedBecause ?? "", /not ready/);
  sync.hasSynced = true;
  sync.isFailing = false;
  assert.equal(lifecycle.check(), true);
  assert.equal(lifecycle.closedBecause, undefined);
  sync.isFailing = true;
  assert.match(String(lifecycle.check()), /kernel rejects/);
  sync.isFailing = false;
  assert.equal(lifecycle.check(), true);
});

for (const [what, answer] of [["deleted", DELETED], ["gone", GONE]] as const) {
  Deno.test(`Lifecycle.end() of a pod that is ${what} stays ready and waits for the flows`, async () => {
    const f = fixture({ pod: () => answer, flows: [3, 3, 2, 2, 1, 1, 0] });
    const ending = f.end();
    assert.match(f.lifecycle.closedBecause ?? "", /gateway is stopping/);
    await sleep(10);
    assert.equal(f.lifecycle.check(), true);
    assert.equal(f.lifecycle.isDraining, true);
    assert.equal(f.toldOfDraining(), 1);
    await ending;
    assert.ok(f.looks() >= 7, `${f.looks()} looks`);
  });
}

Deno.test("Lifecycle.end() of a container alone is not ready at once and waits for nothing", async () => {
  lines = loggedLines();
  const f = fixture({ pod: () => ALIVE, flows: [1_000] });
  await f.end();
  assert.match(String(f.lifecycle.check()), /container is stopping/);
  assert.equal(f.lifecycle.isDraining, false);
  assert.equal(f.toldOfDraining(), 0);
  assert.match(lines.join("\n"), /keeping the kernel's state/);
});

Deno.test("Lifecycle.end() without flows waits for those that are on their way", async () => {
  const f = fixture({ pod: () => DELETED, flows: [0] });
  await f.end();
  assert.ok(f.looks() >= 2, "not at the first look");
});

for (const flows of [[7], [undefined]]) {
  Deno.test(`Lifecycle.end() ends with its time although ${flows[0] ?? "nobody knows how many"} flows remain`, async () => {
    lines = loggedLines();
    const f = fixture({ pod: () => DELETED, flows, timeoutMs: 500 });
    await f.end();
    assert.ok(f.looks() >= 2, "not at the first look");
    assert.match(lines.join("\n"), /Stopping although flows may remain/);
  });
}

Deno.test("Lifecycle.end() drains, and stays ready, while the API server cannot be asked", async () => {
  const f = fixture({
    pod: () => Promise.reject(new Error("out of reach")),
    flows: [2],
    timeoutMs: 40,
  });
  const ending = f.end();
  await sleep(20);
  assert.equal(f.lifecycle.check(), true);
  await ending;
  assert.equal(f.lifecycle.check(), true);
});
