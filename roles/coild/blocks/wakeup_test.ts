import assert from "node:assert/strict";
import { Wakeup } from "./wakeup.ts";

const NEVER_MS = 3_600_000;
const signal = new AbortController().signal;

Deno.test("Wakeup keeps a wake-up that comes before the wait", async () => {
  const wakeup = new Wakeup();
  wakeup.wake();
  await wakeup.wait({ signal, timeoutMs: NEVER_MS });
});

Deno.test("Wakeup ends the wait under way, and only that", async () => {
  const wakeup = new Wakeup();
  const first = wakeup.wait({ signal, timeoutMs: NEVER_MS });
  wakeup.wake();
  await first;
  const start = performance.now();
  await wakeup.wait({ signal, timeoutMs: 20 });
  assert.ok(performance.now() - start >= 15);
});

Deno.test("Wakeup rejects with the signal's reason", async () => {
  const controller = new AbortController();
  const wait = new Wakeup().wait({
    signal: controller.signal,
    timeoutMs: NEVER_MS,
  });
  const reason = new DOMException("enough", "AbortError");
  controller.abort(reason);
  await assert.rejects(wait, (error) => error === reason);
});
