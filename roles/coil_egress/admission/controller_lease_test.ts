import assert from "node:assert/strict";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { type FakeAnswer, FakeTransport } from "../../../lib/kube/testing.ts";
import { ControllerLease } from "./controller_lease.ts";

/** A lease of a server that answers so, and a clock that a test moves. */
function fixture(answer: () => FakeAnswer) {
  const transport = new FakeTransport(() => answer());
  let nowMs = 1_000;
  const lease = new ControllerLease(new KubeClient(transport), {
    namespace: "coil-system",
    clock: {
      nowMs: () => nowMs,
      after: () => ({ [Symbol.dispose]: () => {} }),
    },
  });
  return {
    isAway: () => lease.isAway(),
    pass: (ms: number) => nowMs += ms,
    paths: () => transport.requests.map(({ path }) => path),
  };
}

const held = (renewed: number, holderIdentity = "a"): FakeAnswer => ({
  body: {
    metadata: { name: "coil-egress-leader" },
    spec: {
      holderIdentity,
      renewTime: new Date(renewed).toISOString(),
    },
  },
});

Deno.test("ControllerLease takes a controller that renews its lease for present, and asks every 5 s at most", async () => {
  let renewed = 0;
  const f = fixture(() => held(renewed += 1_000));
  for (let n = 0; n < 3; n++) assert.equal(await f.isAway(), false);
  assert.deepEqual(f.paths(), [
    "/apis/coordination.k8s.io/v1/namespaces/coil-system/leases/coil-egress-leader",
  ]);
  for (let n = 2; n < 9; n++) {
    f.pass(5_001);
    assert.equal(await f.isAway(), false);
    assert.equal(f.paths().length, n);
  }
});

for (
  const [what, answer] of [
    ["that was given back", held(0, "")],
    ["that does not exist", { status: 404, body: { kind: "Status" } }],
  ] as const
) {
  Deno.test(`ControllerLease takes nobody for present by a lease ${what}`, async () => {
    assert.equal(await fixture(() => answer).isAway(), true);
  });
}

Deno.test("ControllerLease sees that nobody renews a lease, and that somebody does again", async () => {
  let answer = held(0);
  const f = fixture(() => answer);
  assert.equal(await f.isAway(), false);
  f.pass(16_001);
  assert.equal(await f.isAway(), true);
  answer = held(1_000, "b");
  f.pass(5_001);
  assert.equal(await f.isAway(), false);
});

Deno.test("ControllerLease asks again after a failure", async () => {
  let fails = true;
  const f = fixture(() =>
    fails ? { status: 500, body: { kind: "Status" } } : held(0)
  );
  await assert.rejects(f.isAway());
  fails = false;
  assert.equal(await f.isAway(), false);
});
