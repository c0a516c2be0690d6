// The model counts the same by the same seed, and what the limits of a large
// cluster rest on.
import assert from "node:assert/strict";
import { parse } from "yaml";
import { ADDRESS_BLOCKS } from "../../lib/api/mod.ts";
import { LARGE } from "./size.ts";
import { type Pattern, PATTERNS, returningAfter } from "./patterns.ts";
import {
  behindS,
  type Outcome,
  REPLACED_TOGETHER,
  runScenario,
  SCENARIOS,
} from "./scenarios.ts";

const SMALL = {
  ...LARGE,
  nodes: 100,
  pods: 3_000,
  egresses: 4,
  clients: 200,
};

function run(name: string, pattern: Pattern, size = SMALL): Outcome {
  const scenario = SCENARIOS.find((s) => s.name === name);
  if (scenario === undefined) throw new Error(`No scenario "${name}"`);
  return runScenario(scenario, { size, pattern, seed: 1 });
}

Deno.test("the same seed counts the same in each scenario", () => {
  for (const { name, seconds } of SCENARIOS) {
    if (seconds > 3_600) continue;
    assert.deepEqual(run(name, PATTERNS.now), run(name, PATTERNS.now));
  }
});

/** Namespaces of Egresses that a node's coild follows: of 50, where 2.12 pods name one each. */
const FOLLOWED = 2.076;

Deno.test("watches: what each daemon has open, and the leader", () => {
  const { now } = PATTERNS;
  const gateways = SMALL.egresses * SMALL.gatewaysEach;
  const ends = [
    "30 starts/s",
    "API servers away for 10 s",
    "rollout of coild, 2 % at a time",
    "controller fails over",
  ];
  for (const name of ends) {
    const watches = SMALL.nodes * (now.coild.length + now.router.length) +
      SMALL.nodes * now.egress.length * FOLLOWED +
      gateways * now.gateway.length +
      now.controllers * now.controller.length;
    assert.equal(Math.round(run(name, now).watches), Math.round(watches), name);
  }
});

Deno.test("a pool used up: who forgets refusals asks again for each status of any pool", () => {
  const { now } = PATTERNS;
  const seconds = 600;
  const waiting = SMALL.nodes / 5;
  const remembered = run("a pool used up", now).refused;
  // kubelet tries again every 15 s; asking in advance becomes rare.
  assert.ok(
    remembered <= waiting * seconds * (1 / 15 + 1 / 45),
    `${remembered}`,
  );
  const forgotten = run("a pool used up", { ...now, forgetsRefusals: true });
  assert.ok(forgotten.refused > 1.5 * remembered, `${forgotten.refused}`);
  assert.equal(run("30 starts/s", now).refused, 0);
});

Deno.test("rollouts: each pod is replaced by one, and each coild lists its blocks once", () => {
  const { now } = PATTERNS;
  const rest = run("30 starts/s", now);
  const pods = run("rollout of 15,000 pods", now);
  const replaced = SMALL.pods / 10;
  assert.ok(pods.starts - rest.starts > 0.95 * replaced, `${pods.starts}`);
  const coild = run("rollout of coild, 2 % at a time", now);
  const requests = 900 * coild.mean.requests - 900 * rest.mean.requests;
  assert.ok(requests > 6 * SMALL.nodes, `${requests}`);
});

for (const role of ["coild", "coil-router"]) {
  Deno.test(`rollouts: the DaemonSet of ${role} replaces as many at a time as the model`, async () => {
    const file = new URL(
      `../../deploy/${role}/daemonset.yaml`,
      import.meta.url,
    );
    const { spec } = parse(await Deno.readTextFile(file));
    assert.deepEqual(spec.updateStrategy, {
      type: "RollingUpdate",
      rollingUpdate: { maxUnavailable: `${REPLACED_TOGETHER}%` },
    });
  });
}

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

Deno.test("Services of Egresses are read by name, in place of a watch", () => {
  const { now } = PATTERNS;
  const { servicesS: _, ...without } = now;
  const { mean } = run("30 starts/s", now);
  const none = run("30 starts/s", without).mean;
  // Each of 100 nodes names all four, nearly: once in five minutes.
  const more = 300 * (mean.requests - none.requests) / SMALL.nodes;
  assert.ok(more > 1.5 && more < 4, `${more} Services`);
});

Deno.test("limits: what docs/scale.md promises for 5,000 nodes and 150,000 pods", () => {
  const runLarge = (name: string, pattern: Pattern) =>
    run(name, pattern, LARGE);
  const cores = ({ mean }: Outcome) => mean.busyMs / 1000;
  const { now, withoutRouters } = PATTERNS;
  assert.equal(now.coild.length, 4);
  const rest = runLarge("30 starts/s", withoutRouters);
  assert.ok(cores(rest) <= 1, `${cores(rest)} cores`);
  assert.ok(rest.mean.requests <= 500, `${rest.mean.requests} requests/s`);
  assert.ok(rest.mean.seatS <= 5, `${rest.mean.seatS} seat-seconds`);
  // Two for each namespace of Egresses on each node are the rest.
  const { nodes, egresses, gatewaysEach } = LARGE;
  const followed = 2 * FOLLOWED * nodes + egresses * gatewaysEach;
  assert.ok(rest.watches - followed <= 20_000 + 50, `${rest.watches}`);
  const peak = runLarge("500 starts/s for a minute", withoutRouters);
  assert.equal(peak.behindS, 0);
  const usedUp = runLarge("a pool used up", withoutRouters);
  assert.equal(usedUp.behindS, 0);
  assert.ok(usedUp.refused / 600 <= 100, `${usedUp.refused} requests`);
  const routers = runLarge("30 starts/s", now);
  assert.ok(cores(routers) <= 1, `${cores(routers)} cores`);
  assert.ok(routers.blocks <= 95_000, `${routers.blocks} blocks`);
  const inPoolsOf = (poolBlocks: number) =>
    run("30 starts/s", now, { ...LARGE, poolBlocks });
  // In all of 100.64.0.0/10 as well: a third of most pools is free.
  const shared = inPoolsOf(6_553);
  assert.ok(cores(shared) <= 1, `${cores(shared)} cores`);
  // Of fuller pools they go as soon as before.
  const { givenBack } = inPoolsOf(5_600);
  assert.ok(givenBack > 2 * routers.givenBack, `${givenBack} blocks`);
});

Deno.test("empty blocks stay as long as usual in pools of which few blocks are in use", () => {
  const { blocks } = run("30 starts/s", PATTERNS.now);
  const usual = run("30 starts/s", returningAfter(1)).blocks;
  assert.ok(blocks < 1.1 * usual, `${blocks} instead of ${usual}`);
  const long = run("30 starts/s", returningAfter(4)).blocks;
  assert.ok(long > 1.15 * usual, `${long} instead of ${usual}`);
});

Deno.test("a pool gives no more blocks than it has, and gets those back that were to stay when it is low", () => {
  const inPoolsOf = (poolBlocks: number, hours: number) =>
    run("30 starts/s", returningAfter(hours), { ...SMALL, poolBlocks });
  assert.equal(inPoolsOf(120, 20).refused, 0);
  const usual = inPoolsOf(80, 1);
  assert.ok(usual.refused > 0);
  const kept = inPoolsOf(80, 20);
  const total = SMALL.pools * 80;
  assert.ok(kept.blocks < 0.9 * total, `${kept.blocks} of ${total} blocks`);
  assert.ok(kept.refused < 1.5 * usual.refused, `${kept.refused} refused`);
});

Deno.test("limits: all gateways together hear of their clients some ten times a second", () => {
  const { withoutRouters } = PATTERNS;
  const sent = (pattern: Pattern) =>
    run("30 starts/s", pattern, LARGE).mean.sent;
  const deaf = { ...withoutRouters, gateway: [] };
  const heard = sent(withoutRouters) - sent(deaf);
  assert.ok(heard > 0 && heard <= 100, `${heard} events/s`);
});

Deno.test("limits: coil-router on 1,000 nodes, also when the API servers come back", () => {
  const part = 1_000 / LARGE.nodes;
  const size = {
    ...LARGE,
    nodes: 1_000,
    pods: part * LARGE.pods,
    egresses: part * LARGE.egresses,
    egressNamespaces: part * LARGE.egressNamespaces,
    clients: part * LARGE.clients,
  };
  const { now } = PATTERNS;
  const { mean } = run("30 starts/s", now, size);
  assert.ok(mean.busyMs <= 150, `${mean.busyMs} ms in a second`);
  const { behindS } = run("API servers away for 10 s", now, size);
  assert.ok(behindS <= 15, `${behindS} s behind`);
});

Deno.test("behindS() is what is left of the worst seconds", () => {
  const idle = Array.from({ length: 9 }, () => 1_000);
  assert.equal(behindS(Float64Array.from(idle)), 0);
  assert.equal(behindS(Float64Array.from([48_000, 48_000, 0, 0])), 2);
});
