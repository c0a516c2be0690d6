import assert from "node:assert/strict";
import { onAbort } from "../mod.ts";

Deno.test("onAbort() runs its function once, when the signal aborts", () => {
  const controller = new AbortController();
  let calls = 0;
  using _listening = onAbort(controller.signal, () => calls++);
  assert.equal(calls, 0);
  controller.abort();
  controller.abort();
  assert.equal(calls, 1);
});

Deno.test("onAbort() runs its function now when the signal has aborted", () => {
  let calls = 0;
  using _listening = onAbort(AbortSignal.abort(), () => calls++);
  assert.equal(calls, 1);
});

Deno.test("onAbort() runs nothing after its disposal", () => {
  const controller = new AbortController();
  let calls = 0;
  onAbort(controller.signal, () => calls++)[Symbol.dispose]();
  controller.abort();
  assert.equal(calls, 0);
});

Deno.test("onAbort() does nothing without a signal", () => {
  onAbort(undefined, assert.fail)[Symbol.dispose]();
});
