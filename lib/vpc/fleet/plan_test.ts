import assert from "node:assert/strict";
import { NodeModel, targetsOf } from "../testing.ts";
import { Ec2Model } from "./testing.ts";
import type { Limits } from "./limits.ts";
import { shortOf, type Targets } from "./targets.ts";
import { countsOf, membersOf } from "./fleet.ts";

const T3_SMALL: Limits = { enis: 3, addressesPerEni: 4, prefixes: true };
const M5_LARGE: Limits = { enis: 3, addressesPerEni: 10, prefixes: true };
const P3DN: Limits = { enis: 15, addressesPerEni: 50, prefixes: true };
const SUBNET = "10.0.96.0/21";

/** Lets time pass until nothing is done for two minutes. */
function settle(node: NodeModel): void {
  let calls = -1;
  let quiet = 0;
  while (quiet < 120 && node.now < 10_000_000) {
    node.step(1_000);
    quiet = node.calls.length === calls ? quiet + 1 : 0;
    calls = node.calls.length;
  }
}

function nodeOf(
  limits: Limits,
  targets: Partial<Targets>,
  subnet = SUBNET,
): NodeModel {
  const ec2 = new Ec2Model(limits, subnet);
  return new NodeModel(ec2, { targets: targetsOf(targets) });
}

function kinds({ calls }: NodeModel): string[] {
  return calls.map(({ kind }) => kind);
}

/** Spec §8.6: what upstream's plugin was seen to hold, and what its documents say. */
const LAYOUTS: readonly [string, Limits, Partial<Targets>, number, number[]][] =
  [
    ["ENI=1", T3_SMALL, { warmEnis: 1 }, 0, [3]],
    ["ENI=1", T3_SMALL, { warmEnis: 1 }, 1, [3, 3]],
    ["ENI=1", T3_SMALL, { warmEnis: 1 }, 4, [3, 3, 3]],
    ["ENI=1", T3_SMALL, { warmEnis: 1 }, 5, [3, 3, 3]],
    ["ENI=1", T3_SMALL, { warmEnis: 1 }, 9, [3, 3, 3]],
    ["IP=1 MIN=1", T3_SMALL, { warmIps: 1, minIps: 1 }, 0, [1]],
    ["IP=1 MIN=1", T3_SMALL, { warmIps: 1, minIps: 1 }, 5, [3, 3]],
    ["IP=1 MIN=1", T3_SMALL, { warmIps: 1, minIps: 1 }, 9, [3, 3, 3]],
    ["IP=2 MIN=5", T3_SMALL, { warmIps: 2, minIps: 5 }, 0, [3, 2]],
    ["IP=2 MIN=5", T3_SMALL, { warmIps: 2, minIps: 5 }, 5, [3, 3, 1]],
    ["IP=2 MIN=5", T3_SMALL, { warmIps: 2, minIps: 5 }, 9, [3, 3, 3]],
    ["IP=5 MIN=10", M5_LARGE, { warmIps: 5, minIps: 10 }, 0, [9, 1]],
    ["IP=5 MIN=10", M5_LARGE, { warmIps: 5, minIps: 10 }, 7, [9, 3]],
    ["IP=5 MIN=10", M5_LARGE, { warmIps: 5, minIps: 10 }, 15, [9, 9, 2]],
    ["ENI=1", P3DN, { warmEnis: 1 }, 0, [49]],
    ["ENI=1", P3DN, { warmEnis: 1 }, 3, [49, 49]],
    ["ENI=1", P3DN, { warmEnis: 1 }, 95, [49, 49, 49]],
    ["IP=5 MIN=10", P3DN, { warmIps: 5, minIps: 10 }, 0, [10]],
    ["IP=5 MIN=10", P3DN, { warmIps: 5, minIps: 10 }, 7, [12]],
    ["IP=5 MIN=10", P3DN, { warmIps: 5, minIps: 10 }, 45, [49, 1]],
    ["PREFIX=1", T3_SMALL, { kind: "prefix", warmPrefixes: 1 }, 0, [1]],
    ["PREFIX=1", T3_SMALL, { kind: "prefix", warmPrefixes: 1 }, 5, [2]],
    ["PREFIX=1", T3_SMALL, { kind: "prefix", warmPrefixes: 1 }, 16, [2]],
    ["PREFIX=1", T3_SMALL, { kind: "prefix", warmPrefixes: 1 }, 17, [3]],
    ["PREFIX=1", T3_SMALL, { kind: "prefix", warmPrefixes: 1 }, 58, [3, 2]],
    ["IP=1 MIN=1", T3_SMALL, { kind: "prefix", warmIps: 1, minIps: 1 }, 0, [1]],
    ["IP=1 MIN=1", T3_SMALL, { kind: "prefix", warmIps: 1, minIps: 1 }, 5, [1]],
    ["IP=1 MIN=1", T3_SMALL, { kind: "prefix", warmIps: 1 }, 17, [2]],
    ["IP=1 MIN=1", T3_SMALL, { kind: "prefix", warmIps: 1 }, 58, [3, 1]],
    ["FREE=3..6", T3_SMALL, { free: { min: 3, max: 6 } }, 0, [3]],
    ["FREE=3..6", T3_SMALL, { free: { min: 3, max: 6 } }, 3, [3, 3]],
    ["FREE=3..6", T3_SMALL, { free: { min: 3, max: 6 } }, 4, [3, 3, 3]],
    ["FREE=3..6", T3_SMALL, { free: { min: 3, max: 6 } }, 9, [3, 3, 3]],
  ];

for (const [name, limits, targets, pods, layout] of LAYOUTS) {
  const kind = targets.kind ?? "address";
  const title = `${limits.enis}x${limits.addressesPerEni} ${kind} ${name}`;
  Deno.test(`plan() holds [${layout}] for ${pods} pods: ${title}`, () => {
    const node = nodeOf(limits, targets);
    settle(node);
    node.pods = pods;
    settle(node);
    assert.deepEqual(node.layout, layout);
    assert.equal(node.used, pods);
    const shrinks = ["unassign", "detach", "delete"];
    assert.ok(!kinds(node).some((kind) => shrinks.includes(kind)));
  });
}

Deno.test("plan() serves 9 pods at once with three calls that add", () => {
  const node = nodeOf(T3_SMALL, { warmIps: 1, minIps: 1 });
  settle(node);
  const before = node.calls.length;
  node.pods = 9;
  settle(node);
  assert.equal(node.used, 9);
  const added = kinds(node).slice(before)
    .filter((kind) => kind === "assign" || kind === "create");
  assert.deepEqual(added, ["create", "create", "assign"].sort());
});

for (
  const [ec2S, imdsS] of [[0, 1], [12, 1], [60, 1], [180, 1], [60, 60]] as const
) {
  Deno.test(`plan() makes no call twice while EC2's list is ${ec2S} s behind, and the metadata ${imdsS}`, () => {
    const ec2 = new Ec2Model(T3_SMALL, SUBNET);
    const targets = targetsOf({ warmIps: 1, minIps: 1 });
    const lagMs = { ec2: ec2S * 1_000, imds: imdsS * 1_000 };
    const node = new NodeModel(ec2, { targets, lagMs });
    settle(node);
    const callsFor = (change: () => void) => {
      const { length } = node.calls;
      change();
      // Longer than the list is behind.
      for (let s = 0; s < 600; s++) node.step(1_000);
      return kinds(node).slice(length).sort();
    };
    assert.deepEqual(callsFor(() => node.pods = 9), [
      "assign",
      ...["attach", "attach", "create", "create"],
      ...["endWithInstance", "endWithInstance"],
    ]);
    assert.deepEqual(callsFor(() => node.stop(8, (n) => n - 1)), [
      ...["delete", "delete", "detach", "detach"],
      "unassign",
    ]);
    assert.deepEqual([node.used, node.layout], [1, [2]]);
  });
}

for (
  const [kind, pods, full, left] of [
    ["address", 5, [3, 3], [2]],
    ["prefix", 80, [3, 3], [1]],
  ] as const
) {
  Deno.test(`plan() keeps what is in store on the lowest device, whichever pod ends first: ${kind}`, () => {
    const node = nodeOf(T3_SMALL, { kind, warmIps: 1, minIps: 1 });
    node.pods = pods;
    settle(node);
    assert.deepEqual(node.layout, full);
    // All but the first one, those of low devices first; each rests for 30 s.
    while (node.pods > 1) {
      node.stop(1, (n) => Math.min(1, n - 1));
      node.step(2_000);
    }
    settle(node);
    assert.deepEqual(node.layout, left);
  });
}

Deno.test("plan() makes a throttled call again, and no other in its place", () => {
  let left = 4;
  const node = new NodeModel(new Ec2Model(T3_SMALL, "10.0.96.0/24"), {
    targets: targetsOf({ warmIps: 1, minIps: 1 }),
    fate: () => {
      const kind = left-- > 0 ? "throttled" : "answered";
      return { doneMs: 200, answerMs: 300, kind };
    },
  });
  settle(node);
  assert.deepEqual(kinds(node), Array(5).fill("assign"));
  assert.deepEqual(node.layout, [1]);
});

Deno.test("plan() gives back whole ENIs, the highest device first", () => {
  const node = nodeOf(T3_SMALL, { warmEnis: 1 });
  node.pods = 9;
  settle(node);
  const before = node.calls.length;
  node.stop(9, () => 0);
  settle(node);
  assert.deepEqual(node.layout, [3]);
  assert.equal(node.ec2.enis.size, 1);
  const after = node.calls.slice(before);
  assert.deepEqual(after.map(({ kind }) => kind), [
    "detach",
    "detach",
    "delete",
    "delete",
  ]);
});

Deno.test("plan() goes by the seed's thresholds: keeps 5 free, gives back at 7", () => {
  const node = nodeOf(T3_SMALL, { free: { min: 3, max: 6 } });
  for (let pods = 1; pods <= 9; pods++) {
    node.pods = pods;
    settle(node);
  }
  node.stop(3, (n) => n - 1);
  node.stop(2, (n) => n - 1);
  settle(node);
  assert.deepEqual(node.layout, [3, 3, 3]);
  node.stop(2, (n) => n - 1);
  settle(node);
  assert.deepEqual(node.layout, [3, 3]);
});

Deno.test("plan() grows beside addresses that rest, and keeps what pods may need", () => {
  const node = nodeOf(M5_LARGE, { warmIps: 2 });
  node.pods = 5;
  settle(node);
  assert.deepEqual(node.layout, [7]);
  node.stop(5, () => 0);
  node.step(100);
  node.step(1_000);
  node.pods = 5;
  for (let second = 0; second < 10; second++) node.step(1_000);
  assert.equal(node.used, 5, "no pod waits for addresses to rest");
  assert.equal(node.resting, 5);
});

Deno.test("plan() makes two calls for a pod that is replaced where warm IPs are exact, and none with prefixes", () => {
  const callsFor = (targets: Partial<Targets>) => {
    const node = nodeOf(M5_LARGE, targets);
    node.pods = 5;
    settle(node);
    const before = node.calls.length;
    node.stop(1, () => 0);
    node.pods += 1;
    settle(node);
    return kinds(node).slice(before);
  };
  assert.deepEqual(callsFor({ warmIps: 1 }), ["assign", "unassign"]);
  assert.deepEqual(callsFor({ kind: "prefix", warmPrefixes: 1 }), []);
});

Deno.test("plan() leaves an ENI that a killed process created to its successor", () => {
  const node = nodeOf(T3_SMALL, { warmEnis: 1 });
  settle(node);
  node.pods = 1;
  while (!kinds(node).includes("create")) node.step(100);
  node.kill();
  settle(node);
  assert.deepEqual(node.layout, [3, 3]);
  assert.equal(kinds(node).filter((kind) => kind === "create").length, 1);
});

Deno.test("plan() gives no address of what a killed process may have given back", () => {
  const ec2 = new Ec2Model(M5_LARGE, SUBNET);
  const node = new NodeModel(ec2, {
    targets: targetsOf({ warmIps: 1 }),
    fate: () => ({ doneMs: 2_000, answerMs: 4_000, kind: "answered" }),
    lagMs: { ec2: 3_000, imds: 3_000 },
  });
  node.pods = 6;
  settle(node);
  node.stop(5, (n) => n - 1);
  while (!kinds(node).includes("unassign")) node.step(100);
  node.kill();
  node.pods = 7;
  // The model throws when a call takes an address that a pod has.
  for (let i = 0; i < 400; i++) node.step(100);
  assert.equal(node.used, 7);
});

Deno.test("plan() deletes an ENI that cannot be attached, and creates no more for a while", () => {
  const node = nodeOf({ ...T3_SMALL, enis: 1 }, { warmEnis: 1 });
  const wrong = { ...T3_SMALL, enis: 2 };
  const situation = node.situation.bind(node);
  node.situation = () => ({ ...situation(), limits: wrong });
  node.pods = 1;
  for (let second = 0; second < 60; second++) node.step(1_000);
  assert.deepEqual(kinds(node), ["assign", "create", "attach", "delete"]);
  assert.equal(node.ec2.enis.size, 1);
});

Deno.test("plan() takes single addresses while the subnet has no prefix, and prefixes later", () => {
  const node = nodeOf(M5_LARGE, { kind: "prefix", warmPrefixes: 1 });
  // One address of each 16 is taken.
  for (let place = 5n; place < 2048n; place += 16n) {
    node.ec2.others.add(place);
  }
  node.pods = 3;
  for (let second = 0; second < 60; second++) node.step(1_000);
  assert.equal(node.used, 3);
  assert.deepEqual(node.layout, [4], "as few as needed");
  node.ec2.others.clear();
  settle(node);
  const { enis } = node.situation();
  const blocks = enis.flatMap(({ grants }) => grants.map(({ block }) => block));
  assert.equal(blocks.filter(({ length }) => length === 28).length, 1);
});

Deno.test("plan() asks a subnet that is nearly full for fewer, then pauses", () => {
  const node = nodeOf(M5_LARGE, { warmEnis: 1 }, "10.0.96.0/28");
  settle(node);
  // Of 16, EC2 keeps five and the ENI has one.
  assert.deepEqual(node.layout, [9]);
  node.pods = 12;
  for (let second = 0; second < 600; second++) node.step(1_000);
  const created = kinds(node).filter((kind) => kind === "create").length;
  assert.ok(created > 0 && created <= 10, `${created} creates`);
  assert.equal(node.lastPlan?.unmet?.why, "subnet");
});

Deno.test("plan() counts on the room of an ENI on its way, and on no more", () => {
  for (const [pods, created] of [[17, 1], [18, 2]] as const) {
    const node = nodeOf(M5_LARGE, { warmIps: 1 });
    node.pods = 8;
    settle(node);
    assert.deepEqual(node.layout, [9]);
    node.pods = 9;
    const creates = () =>
      kinds(node).filter((kind) => kind === "create").length;
    while (creates() === 0) node.step(100);
    // The ENI has one address of nine.
    node.pods = pods;
    node.step(100);
    assert.equal(creates(), created, "while it is created");
    while (!kinds(node).includes("attach")) node.step(100);
    node.step(100);
    assert.equal(creates(), created, "while it is attached");
    assert.equal(node.lastPlan?.unmet, undefined);
  }
});

Deno.test("plan() keeps an ENI that EC2 shows before the call that creates it has ended", () => {
  const node = nodeOf(M5_LARGE, { warmIps: 1 });
  node.pods = 17;
  settle(node);
  const before = node.calls.length;
  // For the last ENI that the instance may have.
  node.pods = 18;
  for (let tenth = 0; tenth < 100; tenth++) node.step(100);
  assert.deepEqual(node.layout, [9, 9, 1]);
  assert.deepEqual(kinds(node).slice(before), [
    "create",
    "attach",
    "endWithInstance",
  ]);
});

Deno.test("plan() does nothing while the primary ENI is not shown", () => {
  const node = nodeOf(T3_SMALL, { warmEnis: 1 });
  const situation = node.situation.bind(node);
  node.situation = () => ({ ...situation(), enis: [] });
  node.pods = 3;
  settle(node);
  assert.deepEqual(node.calls, []);
});

Deno.test("plan() is never short when it has settled with room", () => {
  const node = nodeOf(M5_LARGE, { warmIps: 3, minIps: 4 });
  node.pods = 11;
  settle(node);
  const situation = node.situation();
  const counts = countsOf(membersOf(situation), situation);
  assert.equal(shortOf(situation, counts), 0);
});
