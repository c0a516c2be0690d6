import assert from "node:assert/strict";
import { RecordingClock, untilPasses } from "../../async/testing.ts";
import type { CoreV1Event } from "../api/objects.ts";
import { KubeClient } from "../client/client.ts";
import { KubeUnreachableError } from "../http/errors.ts";
import type { TransportRequest, TransportResponse } from "../http/transport.ts";
import { FakeTransport, MemoryApi } from "../testing.ts";
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

/** An API server whose first answer does not arrive, although the request did. */
class LostAnswer extends MemoryApi {
  readonly #instead: () => Error;
  #isLost = false;

  constructor(instead: () => Error) {
    super();
    this.#instead = instead;
  }

  override async request(
    request: TransportRequest,
  ): Promise<TransportResponse> {
    const answer = await super.request(request);
    if (this.#isLost) return answer;
    this.#isLost = true;
    throw this.#instead();
  }

  /** The Events that are stored. */
  get events(): (CoreV1Event | undefined)[] {
    return this.keys.map((key) => this.get<CoreV1Event>(key));
  }
}

Deno.test("EventRecorder writes an Event that was under way when it was stopped once", async () => {
  const stop = new AbortController();
  const api = new LostAnswer(() => {
    stop.abort();
    return stop.signal.reason;
  });
  const recorder = new EventRecorder(new KubeClient(api), {
    component: "test",
  });
  for (const reason of ["First", "Second"]) {
    recorder.event(NODE, { type: "Normal", reason, message: "m" });
  }
  await recorder.run(stop.signal);
  const reasons = api.events.map((event) => event?.reason);
  assert.deepEqual(reasons.toSorted(), ["First", "Second"]);
  assert.deepEqual([recorder.pending, recorder.dropped], [0, 0]);
});

Deno.test("EventRecorder counts on in an Event whose answer was lost, and has its last annotations", async () => {
  const stop = new AbortController();
  let call = 0;
  const event = () =>
    recorder.event(NODE, {
      type: "Normal",
      reason: "R",
      message: "m",
      annotations: { call: `${++call}` },
    });
  const api = new LostAnswer(() => {
    event();
    return new KubeUnreachableError("lost");
  });
  const recorder = new EventRecorder(new KubeClient(api), {
    component: "test",
    clock: new RecordingClock(),
  });
  event();
  const running = recorder.run(stop.signal);
  // With the annotations of the last one.
  const counts = () =>
    api.events.map((stored) => [
      stored?.count,
      stored?.metadata?.annotations?.["call"],
    ]);
  await untilPasses(() => assert.deepEqual(counts(), [[2, "2"]]));
  event();
  await untilPasses(() => assert.deepEqual(counts(), [[3, "3"]]));
  stop.abort();
  await running;
});
