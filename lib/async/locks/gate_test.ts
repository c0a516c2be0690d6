import assert from "node:assert/strict";
import { Gate } from "../mod.ts";

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
