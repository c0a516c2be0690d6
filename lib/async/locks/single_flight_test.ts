import assert from "node:assert/strict";
import { Gate, SingleFlight } from "../mod.ts";

Deno.test("SingleFlight.do() shares one call per key, result and error alike", async () => {
  const flights = new SingleFlight<number>();
  let calls = 0;
  const gate = new Gate();
  const fn = async () => {
    calls++;
    await gate.wait();
    return calls;
  };
  const all = Promise.all([
    flights.do("a", fn),
    flights.do("a", fn),
    flights.do("b", fn),
  ]);
  assert.ok(flights.isFlying("a"));
  gate.open();
  assert.deepEqual(await all, [2, 2, 2]);
  assert.equal(calls, 2);
  assert.ok(!flights.isFlying("a"));

  const failure = new Error("no");
  const failing = () => Promise.reject(failure);
  const results = await Promise.allSettled([
    flights.do("a", failing),
    flights.do("a", fn),
  ]);
  assert.deepEqual(results.map((r) => r.status), ["rejected", "rejected"]);
  assert.equal(await flights.do("a", () => Promise.resolve(9)), 9);
});

Deno.test("SingleFlight.do() forgets a call that throws before its first wait", async () => {
  const flights = new SingleFlight<number>();
  await assert.rejects(flights.do("a", () => {
    throw new Error("at once");
  }));
  assert.ok(!flights.isFlying("a"));
});
