import assert from "node:assert/strict";
import { RecordingClock } from "../../async/testing.ts";
import { KubeClient } from "../client/client.ts";
import { FakeTransport } from "../testing.ts";
import { EventRecorder } from "./event_recorder.ts";

const NODE = { apiVersion: "v1", kind: "Node", name: "node1" };

Deno.test("EventRecorder pauses longer and longer while the API server is away, and begins with the first pause when it is back", async () => {
  const stop = new AbortController();
  const clock = new RecordingClock();
  const { delays } = clock;
  let attempts = 0;
  const transport = new FakeTransport(() => {
    attempts++;
    if (attempts === 103) stop.abort();
    const isBack = attempts === 101;
    return isBack ? { body: { metadata: { name: "e" } } } : { status: 503 };
  });
  const recorder = new EventRecorder(new KubeClient(transport), {
    component: "test",
    clock,
  });
  for (const reason of ["First", "Second"]) {
    recorder.event(NODE, { type: "Normal", reason, message: "m" });
  }
  await recorder.run(stop.signal);
  delays.slice(0, 100).forEach((ms, i) =>
    assert.ok(ms <= Math.min(30_000, 1_000 * 2 ** i), `${i}: ${ms}`)
  );
  assert.ok((delays[100] ?? NaN) <= 1_000, "the first pause again");
  const late = delays.slice(5, 100);
  assert.ok(late.some((ms) => ms < 6_000) && late.some((ms) => ms > 24_000));
});
