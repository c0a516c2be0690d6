import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { FakeClock } from "../../../lib/async/testing.ts";
import { parseResult } from "../../../lib/cni/mod.ts";
import type { CallEntry } from "../../../lib/cnirpc/inspection/mod.ts";
import { GrpcError, StatusCode } from "../../../lib/grpc/mod.ts";
import { requestOf } from "../../../lib/plugin/testing.ts";
import { Registry } from "../../../lib/telemetry/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { CallError } from "../base/errors.ts";
import { CallsInFlight, enterPhase } from "../observe/calls_in_flight.ts";
import { CoildMetrics } from "../observe/metrics.ts";
import { CniCalls } from "./cni_calls.ts";

loggedLines();

const nothing = () => Promise.resolve();

/** All but ADD. */
const METHODS = { del: nothing, check: nothing, gc: nothing, status: nothing };

Deno.test("a call whose work ends after its caller has gone counts as cancelled", async () => {
  const registry = new Registry();
  const work = Promise.withResolvers<void>();
  const calls = new CniCalls({
    methods: {
      async add() {
        await work.promise;
        return parseResult({ cniVersion: "1.0.0" });
      },
      ...METHODS,
    },
    registry,
  });
  const caller = new AbortController();
  const answer = calls.call({
    method: "Add",
    read: () => requestOf("a"),
    signal: caller.signal,
    remainingMs: undefined,
  });
  caller.abort();
  await assert.rejects(answer, CallError);
  work.resolve();
  await calls.finish(60_000);
  const counts = (await registry.metrics()).split("\n").filter((line) =>
    line.startsWith("grpc_server_handled_total") && !line.endsWith(" 0")
  );
  assert.equal(counts.length, 1);
  assert.match(counts.join(), /grpc_code="Canceled".* 1$/);
});

Deno.test("a call that gRPC ends at its deadline is late, not left by its caller", async () => {
  const work = Promise.withResolvers<never>();
  const calls = new CniCalls({
    methods: { add: () => work.promise, ...METHODS },
  });
  const grpc = new AbortController();
  const answer = calls.call({
    method: "Add",
    read: () => requestOf("a"),
    signal: grpc.signal,
    // This clock began a little later.
    remainingMs: 60_000,
  });
  const code = StatusCode.DEADLINE_EXCEEDED;
  grpc.abort(new GrpcError("Deadline exceeded", { code }));
  await assert.rejects(
    answer,
    (error) => error instanceof CallError && error.status === code,
  );
  work.reject(new Error("ended"));
  await calls.finish(60_000);
});

Deno.test("ADDs are in flight from their begin to their end, also when they fail", async () => {
  const registry = new Registry();
  const inFlight = new CallsInFlight();
  new CoildMetrics(registry, inFlight);
  const ends = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ] as const;
  const left = ends.map(({ promise }) => promise);
  const calls = new CniCalls({
    methods: {
      async add() {
        await left.shift();
        return parseResult({ cniVersion: "1.0.0" });
      },
      ...METHODS,
      del: () => assertCount("2"),
    },
    inFlight,
  });
  async function assertCount(count: string): Promise<void> {
    const text = await registry.metrics();
    assert.equal(/^coil_coild_adds_in_flight (\d+)$/m.exec(text)?.[1], count);
  }
  const call = (method: "Add" | "Del") =>
    calls.call({
      method,
      read: () => requestOf("a"),
      signal: new AbortController().signal,
      remainingMs: undefined,
    });
  await assertCount("0");
  const fails = call("Add");
  const succeeds = call("Add");
  await call("Del");
  ends[0].reject(new Error("no"));
  await assert.rejects(fails, CallError);
  await assertCount("1");
  ends[1].resolve();
  await succeeds;
  await assertCount("0");
  await calls.finish(60_000);
});

Deno.test("a call has its answer before its record is written, and a stop waits for that", async () => {
  const lines = loggedLines();
  const add = () => Promise.resolve(parseResult({ cniVersion: "1.0.0" }));
  const calls = new CniCalls({ methods: { add, ...METHODS } });
  const { signal } = new AbortController();
  const read = () => requestOf("a");
  await calls.call({ method: "Add", read, signal, remainingMs: undefined });
  assert.deepEqual(lines, []);
  await calls.finish(60_000);
  const records = lines.map((line) => JSON.parse(line).msg);
  assert.deepEqual(records, ["finished call"]);
});

Deno.test("burst-80 (coil#368): of 110 ADDs at once one that the kernel holds up holds up no other, and is reported", async () => {
  const clock = new FakeClock();
  const inFlight = new CallsInFlight({ clock });
  const long: CallEntry[] = [];
  const held = Promise.withResolvers<void>();
  const calls = new CniCalls({
    methods: {
      async add({ containerId }) {
        using _phase = enterPhase("network");
        if (containerId === "c-0") await held.promise;
        return parseResult({ cniVersion: "1.0.0" });
      },
      ...METHODS,
    },
    inFlight,
  });
  await using tasks = new TaskGroup();
  tasks.run(
    "long calls",
    (signal) => inFlight.reportLong((call) => void long.push(call), signal),
  );
  const [slow, ...others] = Array.from({ length: 110 }, (_, n) =>
    calls.call({
      method: "Add",
      read: () => requestOf(`${n}`),
      signal: new AbortController().signal,
      remainingMs: undefined,
    }));
  assert.equal((await Promise.all(others)).length, 109);
  await clock.advance(5_000);
  assert.deepEqual(long.map(({ pod, phase }) => [pod, phase]), [
    ["0", "network"],
  ]);
  held.resolve();
  await slow;
  await calls.finish(60_000);
});
