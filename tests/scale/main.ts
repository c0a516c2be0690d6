// `deno task scale`: what a cluster of 5,000 nodes asks of the API server, by a
// model of it, in the course of a day and when much goes wrong.
import { parseArgs } from "node:util";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import { Random } from "../faults/random.ts";
import { type Pattern, PATTERNS, returningAfter } from "./patterns.ts";
import { computeRestart } from "./restart.ts";
import { type ClusterSize, LARGE, sampleOf } from "./size.ts";
import {
  type Outcome,
  runProduct,
  runScenario,
  type Scenario,
  SCENARIOS,
  warmUpOf,
} from "./scenarios.ts";

const RESTART = "the only API server restarts";
/** Seconds that it is away, and its processors. */
const RESTARTS = [[3, 8], [10, 8], [60, 8], [3, 16], [3, 4]] as const;

const RETURNS = "coil-router on each node, by how long empty blocks stay";
const PRODUCT = "the product's own code";
const HOURS = [1, 2, 4];
/** 6,553 are all of 100.64.0.0/10 in 20 pools; of 5,600 the largest pool uses nine tenths. */
const POOL_SIZES = [16_384, 8_192, 6_553, 5_600];

const NAMES: Readonly<Record<string, string>> = {
  withoutRouters: "now, routing daemon",
};

const encoder = new TextEncoder();
const { values: { seed, only, nodes, product } } = parseArgs({
  args: Deno.args,
  options: {
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
    product: { type: "boolean", default: false },
    nodes: { type: "string", default: "100" },
  },
});

function print(text: string): void {
  Deno.stdout.writeSync(encoder.encode(`${text}\n`));
}

function shown(value: number): string {
  return value < 10 && !Number.isInteger(value)
    ? value.toFixed(1)
    : Math.round(value).toLocaleString("en-US");
}

function row(pattern: string, { name, mean, peak, ...o }: Outcome): string {
  const both = (key: keyof typeof mean, per = 1) =>
    `${shown(mean[key] / per)} / ${shown(peak[key] / per)}`;
  const cells = [
    name,
    pattern,
    shown(o.watches),
    [o.obtained, o.givenBack, o.refused].map(shown).join(" / "),
    both("requests"),
    both("compared"),
    both("sent"),
    both("bytes", 1e6),
    both("seatS"),
    both("busyMs", 1000),
    shown(o.behindS),
  ];
  return `| ${cells.join(" | ")} |`;
}

/** Times after the server's return. */
function restartRow(awayS: number, cores: number): string {
  const { stepMs, requests, turnedAway, cpuMs } = computeRestart({
    size: LARGE,
    pattern: PATTERNS.now,
    cores,
    awayMs: 1000 * awayS,
    random: new Random(Number(seed)),
  });
  const at = (part: number) => {
    const rank = Math.max(1, Math.ceil(part * stepMs.length));
    return shown((stepMs[rank - 1] ?? NaN) / 1000 - awayS);
  };
  const cells = [
    ...[awayS, cores].map(shown),
    ...[0, 0.5, 0.99, 1].map(at),
    ...[requests, turnedAway, cpuMs / 1000].map(shown),
  ];
  return `| ${cells.join(" | ")} |`;
}

/** At 30 starts a second. */
function returnsRow(
  name: string,
  { pattern = PATTERNS.now, size = LARGE }: {
    readonly pattern?: Pattern;
    readonly size?: ClusterSize;
  },
): string {
  const [scenario] = SCENARIOS;
  if (scenario === undefined) throw new Error("There are no scenarios");
  const { blocks, obtained, givenBack, mean } = runScenario(scenario, {
    size,
    pattern,
    seed: Number(seed),
  });
  const perS = (count: number) => shown(count / scenario.seconds);
  const cells = [
    name,
    shown(blocks),
    `${perS(obtained)} / ${perS(givenBack)}`,
    shown(mean.sent),
    shown(mean.seatS),
    shown(mean.busyMs / 1000),
  ];
  return `| ${cells.join(" | ")} |`;
}

/** What so many nodes come to, times so many. */
function multiplied(outcome: Outcome, times: number): Outcome {
  const all = (counts: Outcome["mean"]) =>
    Object.fromEntries(
      Object.entries(counts).map(([count, n]) => [count, times * n]),
    ) as Outcome["mean"];
  return {
    ...outcome,
    obtained: times * outcome.obtained,
    givenBack: times * outcome.givenBack,
    refused: times * outcome.refused,
    watches: times * outcome.watches,
    mean: all(outcome.mean),
    peak: all(outcome.peak),
  };
}

/** Product and table, each with as many nodes. */
async function printProduct(scenario: Scenario, size: ClusterSize) {
  const { sampleOf: times = 1 } = size;
  const pattern = PATTERNS.now;
  const options = { size, seed: Number(seed) };
  const product = await runProduct(scenario, {
    ...options,
    warmUpMs: warmUpOf(pattern),
    hasLeases: true,
  });
  const table = runScenario(scenario, { ...options, pattern });
  print(row(PRODUCT, multiplied(product, times)));
  print(row("the table", multiplied(table, times)));
}

const HEAD =
  "| mean / worst second | | watches | blocks got / returned / refused | requests | compared | sent | MB | seat s | cores | behind, s |\n|---|---|---|---|---|---|---|---|---|---|---|";
function printTables(scenarios: readonly Scenario[]): void {
  if (scenarios.length > 0) {
    print(HEAD);
  }
  for (const scenario of scenarios) {
    for (const [name, pattern] of Object.entries(PATTERNS)) {
      const outcome = runScenario(scenario, {
        size: LARGE,
        pattern,
        seed: Number(seed),
      });
      print(row(NAMES[name] ?? name, outcome));
    }
  }
  if (RETURNS.includes(only)) {
    print(
      `\n${RETURNS}:\n\n| about | blocks | got / returned in a second | sent | seat s | cores |\n|---|---|---|---|---|---|`,
    );
    for (const hours of HOURS) {
      print(returnsRow(`${hours} h`, { pattern: returningAfter(hours) }));
    }
    for (const poolBlocks of POOL_SIZES) {
      const size = { ...LARGE, poolBlocks };
      print(returnsRow(`${shown(poolBlocks)} blocks in each pool`, { size }));
    }
  }
  if (RESTART.includes(only)) {
    print(
      `\n${RESTART}:\n\n| away, s | processors | first, s | median, s | 99 %, s | last, s | requests | of them 429 | processor time, s |\n|---|---|---|---|---|---|---|---|---|`,
    );
    for (const [awayS, cores] of RESTARTS) print(restartRow(awayS, cores));
  }
}

/** What the table says, and what the product's own code does. */
async function main(): Promise<void> {
  const scenarios = SCENARIOS.filter(({ name }) => name.includes(only));
  if (!product) return printTables(scenarios);
  configureLogging({ level: "panic", write: () => {} });
  const size = sampleOf(LARGE, Number(nodes));
  print(`${nodes} nodes, times ${size.sampleOf}:\n\n${HEAD}`);
  for (const scenario of scenarios) await printProduct(scenario, size);
}

await main();
