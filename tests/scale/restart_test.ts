// The only API server restarts: as measured with 500 nodes, and what docs/scale.md
// promises for 5,000.
import assert from "node:assert/strict";
import { SERVICES } from "../../lib/kube/mod.ts";
import { Random } from "../faults/random.ts";
import { PATTERNS } from "./patterns.ts";
import {
  computeRestart,
  type RestartOptions,
  type RestartOutcome,
} from "./restart.ts";
import { LARGE } from "./size.ts";

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

Deno.test("restart: other programs share the processors with as many requests beside 500 coilds as beside 5,000", () => {
  const { mostAtOnce } = restart({});
  assert.equal(mostAtOnce, restart(MEASURED).mostAtOnce);
  // As many as the level has seats of its own.
  assert.equal(mostAtOnce, 44);
});

for (const awayMs of [1_000, 3_000, 10_000, 60_000]) {
  Deno.test(`restart: 5,000 nodes are in step within a minute of the server's return after ${awayMs} ms`, () => {
    const { stepMs } = restart({ awayMs });
    assert.equal(stepMs.length, LARGE.nodes);
    const lastMs = Math.max(...stepMs) - awayMs;
    assert.ok(lastMs <= 60_000, `${lastMs} ms`);
  });
}
