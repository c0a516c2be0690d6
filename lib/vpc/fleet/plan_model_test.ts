/**
 * Runs a node through random histories: pods come and go, calls are late, refused or lost, EC2's list and the metadata
 * lag behind, the subnet fills and empties, operators change ENIs, the process is killed at any point. The model says at
 * each step whether a call is against EC2's rules or takes an address from a pod.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type Fate, NodeModel, targetsOf } from "../testing.ts";
import { type ByHand, Ec2Model } from "./testing.ts";
import { type Action, type EniOutcome, SETTLE_MS } from "./calls.ts";
import { countsOf, membersOf } from "./fleet.ts";
import type { Limits } from "./limits.ts";
import { shortOf, type Targets } from "./targets.ts";

const SUBNET = "10.0.96.0/24";
const PLACES = 256n;
/** How long it takes until nothing changes, pauses included. */
const CALM_MS = 1_500_000;

const GROWS = ["create", "attach", "assign"];
const SHRINKS = ["unassign", "detach", "delete"];

const limits: fc.Arbitrary<Limits> = fc.record({
  enis: fc.integer({ min: 1, max: 4 }),
  addressesPerEni: fc.integer({ min: 2, max: 6 }),
  prefixes: fc.constant(true),
});

const targets: fc.Arbitrary<Partial<Targets>> = fc.oneof(
  fc.record({ warmEnis: fc.integer({ min: 0, max: 2 }) }),
  fc.record({
    warmIps: fc.integer({ min: 0, max: 4 }),
    minIps: fc.integer({ min: 1, max: 8 }),
  }),
  fc.record({
    kind: fc.constant("prefix" as const),
    warmPrefixes: fc.integer({ min: 1, max: 2 }),
    maxPods: fc.constantFrom(40, Infinity),
  }),
  fc.record({
    kind: fc.constant("prefix" as const),
    warmIps: fc.integer({ min: 1, max: 20 }),
    minIps: fc.integer({ min: 0, max: 40 }),
  }),
  fc.integer({ min: 0, max: 4 }).map((min) => ({
    free: { min, max: min + 8 },
  })),
);

const fate: fc.Arbitrary<Fate> = fc.record({
  doneMs: fc.integer({ min: 0, max: 3_000 }),
  answerMs: fc.integer({ min: 0, max: 6_000 }),
  kind: fc.oneof(
    { weight: 12, arbitrary: fc.constant("answered" as const) },
    {
      weight: 3,
      arbitrary: fc.constantFrom<Fate["kind"]>(
        "lost",
        "dropped",
        "refused",
        "throttled",
      ),
    },
  ),
});

type Step =
  | { readonly do: "pods" | "stop"; readonly pods: number }
  | { readonly do: "pass"; readonly ms: number; readonly steps: number }
  | { readonly do: "lag"; readonly ec2: number; readonly imds: number }
  | { readonly do: "fill" | "fragment" | "clear" | "kill" }
  | { readonly do: "hand"; readonly what: ByHand }
  | {
    readonly do: "killAt";
    readonly kind: Action["kind"];
    readonly pods: number;
  };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constantFrom("pods" as const, "stop" as const),
    pods: fc.integer({ min: 1, max: 9 }),
  }),
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("pass" as const),
      ms: fc.constantFrom(100, 700, 3_000, 11_000),
      steps: fc.integer({ min: 1, max: 12 }),
    }),
  },
  fc.record({
    do: fc.constant("lag" as const),
    ec2: fc.integer({ min: 0, max: 90_000 }),
    imds: fc.integer({ min: 0, max: 20_000 }),
  }),
  fc.record({
    do: fc.constant("killAt" as const),
    kind: fc.constantFrom<Action["kind"]>(
      "create",
      "attach",
      "assign",
      "endWithInstance",
      "unassign",
      "detach",
      "delete",
    ),
    pods: fc.integer({ min: 0, max: 15 }),
  }),
  fc.record({
    do: fc.constant("hand" as const),
    what: fc.constantFrom<ByHand>("attach", "assign", "unassign", "detach"),
  }),
  fc.record({
    do: fc.constantFrom<"fill" | "fragment" | "clear" | "kill">(
      "fill",
      "fragment",
      "clear",
      "kill",
      "kill",
    ),
  }),
);

/** A node, and what must hold at each of its steps. */
class Run {
  readonly node: NodeModel;
  calm = false;
  events = 0;
  /** When the process was killed, or an operator changed something behind its back. */
  surprisedAt = -Infinity;
  #outcomes = 0;
  #unknownAt = -Infinity;
  /** The longest that EC2's list was behind. */
  #lagMs = 0;

  constructor(limits: Limits, goals: Partial<Targets>, fates: readonly Fate[]) {
    let next = 0;
    this.node = new NodeModel(new Ec2Model(limits, SUBNET), {
      targets: targetsOf(goals),
      fate: () => {
        const usual = { doneMs: 200, answerMs: 300, kind: "answered" } as const;
        return this.calm ? usual : fates[next++ % fates.length] ?? usual;
      },
    });
  }

  do(step: Step, pick: number): void {
    const { node } = this;
    this.events += 1;
    switch (step.do) {
      case "pods":
        node.pods += step.pods;
        break;
      case "stop":
        node.stop(step.pods, (n) => pick % n);
        break;
      case "pass":
        this.pass(step.ms, step.steps);
        break;
      case "lag":
        Object.assign(node.lagMs, { ec2: step.ec2, imds: step.imds });
        break;
      case "fill":
        this.#occupy(1n);
        break;
      case "fragment":
        this.#occupy(16n);
        break;
      case "clear":
        for (let n = 4n; n < PLACES - 1n; n++) node.ec2.others.delete(n);
        break;
      case "kill":
        this.#kill();
        break;
      case "hand":
        this.surprisedAt = node.now;
        node.ec2.byHand(step.what, pick, node.now);
        break;
      case "killAt":
        if (this.#awaits(step.kind)) this.#kill();
        node.pods += step.pods;
        this.pass(100, 3);
        break;
    }
  }

  #kill(): void {
    this.surprisedAt = this.node.now;
    this.node.kill();
  }

  /** Lets time pass until such a call has just begun; false when there is none. */
  #awaits(kind: Action["kind"]): boolean {
    const { calls } = this.node;
    for (let i = 0; i < 80; i++) {
      const before = calls.length;
      this.pass(1_000, 1);
      if (calls.slice(before).some((call) => call.kind === kind)) return true;
    }
    return false;
  }

  /** Others take each address of so many: those that ENIs have are freed for none of them. */
  #occupy(every: bigint): void {
    const { ec2 } = this.node;
    for (let n = 5n; n < PLACES - 1n; n += every) ec2.others.add(n);
  }

  pass(ms: number, steps: number): void {
    for (let i = 0; i < steps; i++) {
      const before = this.node.calls.length;
      this.node.step(ms);
      this.#check(this.node.calls.slice(before));
    }
  }

  #check(begun: readonly Action[]): void {
    const { node } = this;
    const kinds = new Set(begun.map(({ kind }) => kind));
    const grows = GROWS.some((kind) => kinds.has(kind as Action["kind"]));
    const retires = (node.lastPlan?.retire.length ?? 0) > 0;
    assert.ok(!(grows && retires), "grows and shrinks at once");
    assert.ok(!(grows && kinds.has("detach")), "grows and detaches at once");
    const { enis, addressesPerEni } = node.ec2.limits;
    assert.ok(node.layout.length <= enis);
    assert.ok(node.layout.every((n) => n < addressesPerEni));
    const refused = node.outcomes.slice(this.#outcomes).filter((outcome) =>
      outcome.kind === "refused" && outcome.why === "limit"
    );
    const isUnknown = node.outcomes.slice(this.#outcomes)
      .some(({ kind }) => kind === "unknown");
    this.#outcomes = node.outcomes.length;
    if (isUnknown) this.#unknownAt = node.now;
    this.#lagMs = Math.max(this.#lagMs, node.lagMs.ec2);
    // What a killed process asked for, and what an operator did, may not be shown yet, nor may what had no answer: that
    // is awaited for as long as lists usually take.
    const from = this.#lagMs < SETTLE_MS
      ? this.surprisedAt
      : Math.max(this.surprisedAt, this.#unknownAt);
    const awaitMs = 25_000 + Math.max(5_000, this.#lagMs);
    if (node.now > from + awaitMs) assert.deepEqual(refused, []);
  }

  /** Each change of demand and each fault costs few calls. */
  checkBound(): void {
    const { calls, outcomes } = this.node;
    const faults = outcomes.filter(({ kind }) => kind !== "done").length;
    const most = 6 * (1 + this.events + faults);
    assert.ok(calls.length <= most, `${calls.length} calls, not ${most}`);
  }

  /** Nothing happens any longer: the node finds its place, and stays there. */
  settle(): void {
    const { node } = this;
    this.calm = true;
    Object.assign(node.lagMs, { ec2: 2_000, imds: 5_000 });
    this.pass(1_000, 300);
    const from = node.calls.length;
    const ended = node.outcomes.length;
    this.pass(5_000, CALM_MS / 5_000);
    const later = new Set(node.calls.slice(from).map(({ kind }) => kind));
    const grew = ["create", "assign"].some((k) =>
      later.has(k as Action["kind"])
    );
    const shrank = SHRINKS.some((k) => later.has(k as Action["kind"]));
    const last = node.calls.length;
    this.pass(5_000, 60);
    const { unmet } = node.lastPlan ?? {};
    // A subnet without room, or an instance without, is asked again and again, but rarely.
    assert.ok(last - from < 60, `${last - from} calls in a quiet time`);
    if (unmet !== undefined || isExhausted(node.outcomes.slice(ended))) return;
    assert.ok(!(grew && shrank), "grew and shrank without demand");
    assert.equal(node.calls.length, last, "not at rest");
    assert.equal(node.used, node.pods, "pods wait");
    const situation = node.situation();
    const counts = countsOf(membersOf(situation), situation);
    assert.equal(shortOf(situation, counts), 0, "short");
    assert.ok(
      situation.enis.every(({ ec2 }) =>
        ec2?.attachment || ec2?.ownership === "adopted"
      ),
      "an ENI is left over",
    );
    node.stop(3, (n) => n - 1);
    this.#never(["create", "assign"]);
    if (!node.lastPlan?.unmet) node.pods += 3;
    this.#never(SHRINKS);
  }

  /** What is done about one change of demand goes one way. */
  #never(kinds: readonly string[]): void {
    const { node } = this;
    const calls = node.calls.length;
    const ended = node.outcomes.length;
    this.pass(100, 40);
    this.pass(1_000, 300);
    if (isExhausted(node.outcomes.slice(ended))) return;
    const wrong = node.calls.slice(calls)
      .filter(({ kind }) => kinds.includes(kind));
    assert.deepEqual(wrong, []);
  }
}

function isExhausted(outcomes: readonly EniOutcome[]): boolean {
  return outcomes.some((outcome) =>
    outcome.kind === "refused" && outcome.why === "exhausted"
  );
}

const history = fc.record({
  limits,
  targets,
  fates: fc.array(fate, { minLength: 1, maxLength: 30 }),
  steps: fc.array(fc.tuple(step, fc.nat(50)), { maxLength: 40 }),
});

Deno.test("plan() converges after any history, within the limits, and takes nothing from pods", () => {
  fc.assert(
    fc.property(history, ({ limits, targets, fates, steps }) => {
      const run = new Run(limits, targets, fates);
      for (const [step, pick] of steps) run.do(step, pick);
      run.checkBound();
      run.settle();
    }),
    { numRuns: 100 },
  );
});
