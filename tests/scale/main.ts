// `deno task scale`: what a cluster of 5,000 nodes asks of the API server, by a
// model of it, in the course of a day and when much goes wrong.
import { parseArgs } from "node:util";
import { LARGE } from "./size.ts";
import { PATTERNS } from "./patterns.ts";
import { type Outcome, runScenario, SCENARIOS } from "./scenarios.ts";

const NAMES: Readonly<Record<string, string>> = {
  withoutRouters: "now, routing daemon",
};

const encoder = new TextEncoder();
const { values: { seed, only } } = parseArgs({
  args: Deno.args,
  options: {
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
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

print(
  "| mean / worst second | | watches | blocks got / returned / refused | requests | compared | sent | MB | seat s | cores | behind, s |\n|---|---|---|---|---|---|---|---|---|---|---|",
);
for (const scenario of SCENARIOS) {
  if (!scenario.name.includes(only)) continue;
  for (const [name, pattern] of Object.entries(PATTERNS)) {
    const outcome = runScenario(scenario, {
      size: LARGE,
      pattern,
      seed: Number(seed),
    });
    print(row(NAMES[name] ?? name, outcome));
  }
}
