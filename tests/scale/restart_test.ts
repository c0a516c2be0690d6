// The only API server restarts: as measured with 500 nodes, and what docs/scale.md
// promises for 5,000.
import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { SERVICES } from "../../lib/kube/mod.ts";
import { Random } from "../faults/random.ts";
import { PATTERNS } from "./patterns.ts";
import {
  computeRestart,
  MOST_SEATS,
  QUEUED_AT_MOST,
  type RestartOptions,
  type RestartOutcome,
  SEATS,
} from "./restart.ts";
import { LARGE } from "./size.ts";

/** Of the API server by its defaults: 400 requests at a time and 200 that change something; and the shares of Kubernetes' own levels. */
const SERVER = { seats: 600, shares: 245 };

function restart(options: Partial<RestartOptions>): RestartOutcome {
  return computeRestart({
    size: LARGE,
    pattern: PATTERNS.now,
    cores: 8,
    awayMs: 3_000,
    random: new Random(1),
    ...options,
  });
}

/** 500 nodes have as many pods, and name as many namespaces, each. Services were watched then. */
const MEASURED = {
  pattern: {
    ...PATTERNS.now,
    egress: [
      ...PATTERNS.now.egress,
      { type: SERVICES, by: "namespace" as const },
    ],
  },
  size: { ...LARGE, nodes: 500, pods: 15_000, clients: 1_000 },
  // What clients and bench left of two.
  cores: 0.75,
  awayMs: 3_500,
};

Deno.test("restart: the same seed computes the same", () => {
  assert.deepEqual(restart(MEASURED), restart(MEASURED));
});

Deno.test("restart: 500 nodes as the bench measured them", () => {
  const { stepMs, requests, turnedAway, cpuMs } = restart(MEASURED);
  const near = (value: number, measured: number) =>
    assert.ok(Math.abs(value / measured - 1) < 0.3, `${value}, ${measured}`);
  assert.equal(stepMs.length, 500);
  near(stepMs[249] ?? NaN, 23_600);
  near(stepMs[499] ?? NaN, 26_700);
  near(cpuMs, 15_800);
  // Each watch is opened twice: from too old a version, and from all objects on.
  assert.equal(requests - turnedAway, 2 * 10 * 500);
});

/** What the model reads of deploy/policies/flow_control.yaml. */
interface FlowObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly distinguisherMethod?: { readonly type: string };
    readonly limited?: {
      readonly nominalConcurrencyShares: number;
      readonly borrowingLimitPercent?: number;
      readonly limitResponse: {
        readonly queuing: {
          readonly handSize: number;
          readonly queueLengthLimit: number;
        };
      };
    };
  };
}

Deno.test("restart: seats and queues are those of deploy/policies/flow_control.yaml", async () => {
  const file = new URL(
    "../../deploy/policies/flow_control.yaml",
    import.meta.url,
  );
  const objects = parseAllDocuments(await Deno.readTextFile(file))
    .map((document) => document.toJS() as FlowObject);
  const find = (kind: string) =>
    objects.find((o) => o.kind === kind && o.metadata.name === "coil-nodes")
      ?.spec;
  const shares = objects.reduce(
    (sum, { spec: { limited } }) =>
      sum + (limited?.nominalConcurrencyShares ?? 0),
    SERVER.shares,
  );
  const level = find("PriorityLevelConfiguration")?.limited;
  assert.ok(level);
  const { queuing: { handSize, queueLengthLimit } } = level.limitResponse;
  const nominal = Math.ceil(
    SERVER.seats * level.nominalConcurrencyShares / shares,
  );
  // Without a limit the level could borrow all that others lend.
  const borrowed = Math.round(
    nominal * (level.borrowingLimitPercent ?? NaN) / 100,
  );
  assert.deepEqual([SEATS.nominal, SEATS.borrowed], [nominal, borrowed]);
  assert.equal(MOST_SEATS, Math.ceil(0.15 * nominal));
  // All coilds are one user.
  assert.equal(find("FlowSchema")?.distinguisherMethod?.type, "ByUser");
  assert.equal(QUEUED_AT_MOST, handSize * queueLengthLimit);
});

Deno.test("restart: other programs share the processors with as many requests beside 500 coilds as beside 5,000", () => {
  const { mostAtOnce } = restart({});
  assert.equal(mostAtOnce, restart(MEASURED).mostAtOnce);
  // When levels begin to lend, most requests take more seats than one.
  assert.equal(mostAtOnce, SEATS.nominal);
});

/** Each request takes one seat or more. */
function assertSeats({ mostAtOnce }: RestartOutcome): void {
  const most = SEATS.nominal + SEATS.borrowed;
  assert.ok(mostAtOnce <= most, `${mostAtOnce} at once`);
}

for (const awayMs of [1_000, 3_000, 10_000, 60_000]) {
  Deno.test(`restart: 5,000 nodes are in step within a minute of the server's return after ${awayMs} ms`, () => {
    const outcome = restart({ awayMs });
    const { stepMs } = outcome;
    assert.equal(stepMs.length, LARGE.nodes);
    const lastMs = Math.max(...stepMs) - awayMs;
    assert.ok(lastMs <= 60_000, `${lastMs} ms`);
    assertSeats(outcome);
  });
  Deno.test(`restart: 500 nodes have no more than their seats after ${awayMs} ms`, () => {
    assertSeats(restart({ ...MEASURED, awayMs }));
  });
}
