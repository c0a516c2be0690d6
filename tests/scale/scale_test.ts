// The model counts the same by the same seed, and what the limits of a large
// cluster rest on.
import assert from "node:assert/strict";
import { ADDRESS_BLOCKS } from "../../lib/api/mod.ts";
import { LARGE } from "./cluster.ts";
import { type Pattern, PATTERNS } from "./patterns.ts";
import { behindS, type Outcome, runScenario, SCENARIOS } from "./scenarios.ts";

const SMALL = {
  ...LARGE,
  nodes: 100,
  pods: 3_000,
  egresses: 4,
  clients: 200,
};

function run(name: string, pattern: Pattern, nodes = SMALL.nodes): Outcome {
  const scenario = SCENARIOS.find((s) => s.name === name);
  if (scenario === undefined) throw new Error(`No scenario "${name}"`);
  return runScenario(scenario, {
    size: { ...SMALL, nodes },
    pattern,
    seed: 1,
  });
}

Deno.test("the same seed counts the same in each scenario", () => {
  for (const { name, seconds } of SCENARIOS) {
    if (seconds > 3_600) continue;
    assert.deepEqual(run(name, PATTERNS.now), run(name, PATTERNS.now));
  }
});

Deno.test("watches: what each daemon has open, and the leader", () => {
  const { now } = PATTERNS;
  const gateways = SMALL.egresses * SMALL.gatewaysEach;
  for (const name of ["30 starts/s", "API servers away for 10 s"]) {
    assert.equal(
      run(name, now).watches,
      SMALL.nodes * (now.coild.length + now.router.length) +
        gateways * now.gateway.length +
        now.controllers * now.controller.length,
      name,
    );
  }
});

Deno.test("a watch by label is compared with each write", () => {
  const { now } = PATTERNS;
  const labelled = { type: ADDRESS_BLOCKS, by: "label" } as const;
  const coild = [...now.coild, labelled];
  const few = run("30 starts/s", now);
  const many = run("30 starts/s", { ...now, coild });
  assert.equal(many.obtained, few.obtained);
  const more = 600 * (many.mean.compared - few.mean.compared);
  const writes = many.obtained + 2 * many.givenBack;
  assert.ok(writes > 0);
  assert.equal(Math.round(more), SMALL.nodes * writes);
});

Deno.test("behindS() is what is left of the worst seconds", () => {
  const idle = Array.from({ length: 9 }, () => 1_000);
  assert.equal(behindS(Float64Array.from(idle)), 0);
  assert.equal(behindS(Float64Array.from([48_000, 48_000, 0, 0])), 2);
});
