import assert from "node:assert/strict";
import { Gate } from "../mod.ts";
import { FakeClock, settle } from "../testing.ts";

Deno.test("Gate.open() lets all through, before and after", async () => {
  const gate = new Gate();
  assert.ok(!gate.isOpen);
  const waiting = gate.wait();
  gate.open();
  gate.open();
  await waiting;
  await gate.wait();
  assert.ok(gate.isOpen);
});

Deno.test("Gate.wait() ends with the signal", async () => {
  await assert.rejects(new Gate().wait({ signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});

Deno.test("Gate.waitAtMost() ends when it is open, after the time, and with the signal", async () => {
  const clock = new FakeClock();
  const ended: string[] = [];
  const [opened, closed] = [new Gate(), new Gate()];
  const controller = new AbortController();
  const waits = {
    opened: opened.waitAtMost(1_000, { clock }),
    late: closed.waitAtMost(1_000, { clock, signal: controller.signal }),
    longer: closed.waitAtMost(2_000, { clock, signal: controller.signal }),
  };
  for (const [name, wait] of Object.entries(waits)) {
    wait.then(() => ended.push(name), ({ name }) => ended.push(name));
  }
  opened.open();
  await settle();
  assert.deepEqual(ended, ["opened"]);
  await clock.advance(1_000);
  assert.deepEqual(ended, ["opened", "late"]);
  controller.abort();
  await settle();
  assert.deepEqual(ended, ["opened", "late", "AbortError"]);
});
