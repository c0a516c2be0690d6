import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { FakeClock } from "../../../lib/async/testing.ts";
import { requestOf } from "../../../lib/plugin/testing.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import {
  CallsInFlight,
  enterPhase,
  type LongCall,
  onLong,
} from "./calls_in_flight.ts";

configureLogging({ write: () => {} });

function track(calls: CallsInFlight, make: () => Promise<void>) {
  return calls.track({ method: "Add", request: requestOf("a") }, make);
}

class Lab implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly long: LongCall[] = [];
  readonly calls = new CallsInFlight({ clock: this.clock });
  readonly #tasks = new TaskGroup();

  constructor() {
    const onLong = (call: LongCall) => void this.long.push(call);
    this.#tasks.run("long", (signal) => this.calls.reportLong(onLong, signal));
  }

  /** A call that is in a phase until the returned function is called. */
  start(pod: string, phase: string) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const plain = requestOf(pod);
    const args = { ...plain.args, K8S_POD_UID: `uid of ${pod}` };
    const request = pod === "a" ? { ...plain, args } : plain;
    const ended = this.calls.track({ method: "Add", request }, async () => {
      using _phase = enterPhase(phase);
      await promise;
    });
    return async () => {
      resolve();
      await ended;
    };
  }

  get phases(): string[] {
    return this.calls.list.map(({ pod, phase, seconds, phaseSeconds }) =>
      `${pod} ${phase} ${seconds} ${phaseSeconds}`
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#tasks[Symbol.asyncDispose]();
  }
}

Deno.test("CallsInFlight knows the phase of each call, and for how long it is in it", async () => {
  await using lab = new Lab();
  const endA = lab.start("a", "pod");
  await lab.clock.advance(1_000);
  const endB = lab.start("b", "address");
  await lab.clock.advance(500);
  assert.deepEqual(lab.phases, ["a pod 1.5 1.5", "b address 0.5 0.5"]);
  assert.deepEqual(lab.calls.list[0], {
    method: "Add",
    containerId: "c-a",
    ifname: "eth0",
    namespace: "apps",
    pod: "a",
    seconds: 1.5,
    phase: "pod",
    phaseSeconds: 1.5,
  });
  await endA();
  assert.deepEqual(lab.phases, ["b address 0.5 0.5"]);
  await endB();
  assert.deepEqual(lab.phases, []);
});

Deno.test("CallsInFlight is between phases when one has ended", async () => {
  await using lab = new Lab();
  const between = Promise.withResolvers<void>();
  const request = requestOf("a");
  const ended = lab.calls.track({ method: "Add", request }, async () => {
    {
      using _phase = enterPhase("lock");
    }
    await between.promise;
  });
  assert.deepEqual(lab.phases, ["a  0 0"]);
  between.resolve();
  await ended;
  using _nothing = enterPhase("outside of a call");
});

Deno.test("CallsInFlight reports a call that takes five seconds once, and forgets one that fails", async () => {
  await using lab = new Lab();
  const end = lab.start("a", "address");
  await lab.clock.advance(500);
  const endLater = lab.start("b", "network");
  await lab.clock.advance(4_499);
  assert.deepEqual(lab.long, []);
  await lab.clock.advance(60_000);
  assert.deepEqual(
    lab.long.map((
      { pod, podUid, phase, seconds },
    ) => [pod, podUid, phase, seconds]),
    [
      ["a", "uid of a", "address", 5],
      ["b", undefined, "network", 5.5],
    ],
  );
  await end();
  await endLater();
  const failing = lab.calls.track(
    { method: "Del", request: requestOf("b") },
    () => Promise.reject(new Error("x")),
  );
  await assert.rejects(failing, /x/);
  assert.deepEqual(lab.phases, []);
});

Deno.test("CallsInFlight.isBusy() is true during a call and once after it", async () => {
  const calls = new CallsInFlight();
  assert.equal(calls.isBusy(), false);
  const { promise, resolve } = Promise.withResolvers<void>();
  const call = track(calls, () => promise);
  assert.deepEqual([calls.isBusy(), calls.isBusy()], [true, true]);
  resolve();
  await call;
  assert.equal(calls.isBusy(), false);
  // Between two looks, as pods that come one by one.
  await track(calls, () => Promise.resolve());
  assert.deepEqual([calls.isBusy(), calls.isBusy()], [true, false]);
});

Deno.test("CallsInFlight.watch() says whether no call was under way, nor has come since", async () => {
  const calls = new CallsInFlight();
  const isQuiet = calls.watch();
  assert.ok(isQuiet());
  await track(calls, () => Promise.resolve());
  assert.ok(!isQuiet(), "one came and went");
  assert.ok(calls.watch()());
  const { promise, resolve } = Promise.withResolvers<void>();
  const call = track(calls, () => promise);
  const duringCall = calls.watch();
  assert.ok(!duringCall());
  resolve();
  await call;
  assert.ok(!duringCall(), "what it was at work on looked incomplete");
});

Deno.test("CallsInFlight.track() passes errors on, and the call is over", async () => {
  const calls = new CallsInFlight();
  await assert.rejects(track(calls, () => Promise.reject(new Error("no"))), {
    message: "no",
  });
  calls.isBusy();
  assert.equal(calls.isBusy(), false);
});

const CALL: LongCall = {
  method: "Add",
  containerId: "c",
  ifname: "eth0",
  namespace: "apps",
  pod: "web-0",
  podUid: "u",
  seconds: 5.001,
  phase: "address",
  phaseSeconds: 5,
};

for (
  const [what, changes, said] of [
    [
      "an ADD",
      {},
      "apps/web-0 NetworkDelayed: The pod's network is not ready after 5 s: it waits for an address: this node's blocks are used up, and no other one has come yet",
    ],
    [
      "an ADD between phases",
      { phase: "" },
      "apps/web-0 NetworkDelayed: The pod's network is not ready after 5 s",
    ],
    ["a DEL", { method: "Del" }, undefined],
    ["an ADD for what is no pod", { namespace: "", pod: "" }, undefined],
  ] as const
) {
  Deno.test(`onLong() says of ${what}: ${said ?? "nothing"}`, () => {
    const told: string[] = [];
    onLong({ ...CALL, ...changes }, {
      record: (pod, { reason, message, annotations }) => {
        told.push(`${pod.namespace}/${pod.name} ${reason}: ${message}`);
        assert.equal(pod.uid, "u");
        assert.deepEqual(annotations, { "coil.cybozu.com/container-id": "c" });
      },
    });
    assert.deepEqual(told, said === undefined ? [] : [said]);
  });
}
