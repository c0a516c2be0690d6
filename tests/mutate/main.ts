// `deno task mutate`: changes one thing at a time, and reports the changes that no test notices.
import { messageOf } from "../../lib/errors/mod.ts";
import { say } from "../runner/output.ts";
import { changedLines } from "./changed.ts";
import { type Importers, readImporters } from "./importers.ts";
import { applyMutant, findMutants, type Mutant } from "./operators.ts";
import { type Options, readOptions } from "./options.ts";
import { sampleOf, spread } from "./sample.ts";
import { describeScore, describeTrial, type Trial } from "./score.ts";
import { filesBelow, isProduction, TreeCopy } from "./tree.ts";
import {
  compiles,
  type Round,
  roundsFor,
  runRound,
  TestOrder,
  TRIED_SUITES,
} from "./trial.ts";
import { WIRING } from "./wiring.ts";
import { tryWiring } from "./wiring_trial.ts";

/** Beyond twice the tests' usual time. */
const SPARE_MS = 30_000;
const BASELINE_MS = 30 * 60_000;

async function mutantsBelow(paths: readonly string[]): Promise<Mutant[]> {
  const files = (await filesBelow(paths)).filter(isProduction);
  const texts = await Promise.all(files.map((file) => Deno.readTextFile(file)));
  return files.flatMap((file, index) => findMutants(file, texts[index] ?? ""));
}

async function changedMutants(): Promise<Mutant[]> {
  const lines = await changedLines();
  const files = [...lines.keys()].filter(isProduction);
  const mutants = files.length === 0 ? [] : await mutantsBelow(files);
  return mutants.filter(({ file, line }) => lines.get(file)?.has(line));
}

/** Runs the tests once as they are, and returns how long they may take. */
async function timeLimit(
  { copy: { root }, order }: Plan,
  rounds: readonly Round[],
) {
  const started = performance.now();
  for (const suite of TRIED_SUITES) {
    const files = [
      ...new Set(
        rounds.filter((round) => round.suite === suite)
          .flatMap((round) => round.files),
      ),
    ];
    if (files.length === 0) continue;
    say(`running ${files.length} files of ${suite.name} without a change`);
    let output = "";
    const onOutput = (text: string) => void (output = text);
    const options = { root, order, timeoutMs: BASELINE_MS, onOutput };
    const { outcome } = await runRound({ suite, files }, options);
    if (outcome !== "passed") {
      say(output);
      throw new UnjudgedError(
        `Cannot judge changes: tests of ${suite.name} fail without one`,
      );
    }
  }
  return 2 * (performance.now() - started) + SPARE_MS;
}

/** Tests fail without a change. */
class UnjudgedError extends Error {
  override readonly name = "UnjudgedError";
}

interface Plan {
  readonly copy: TreeCopy;
  readonly importers: Importers;
  readonly order: TestOrder;
  readonly all: boolean;
  /** When no more changes begin. */
  readonly endMs: number;
}

function roundsOf({ importers, all }: Plan, file: string): Round[] {
  return roundsFor(file, importers.get(file) ?? [], { all });
}

async function tryMutant(
  plan: Plan,
  mutant: Mutant,
  timeoutMs: number,
): Promise<Pick<Trial, "outcome" | "by">> {
  const { order, copy: { root } } = plan;
  const change = (text: string) => applyMutant(text, mutant);
  const { file: changed } = mutant;
  return await plan.copy.withText(changed, change, async () => {
    let isValid: boolean | undefined;
    const check = async () => isValid ??= await compiles(root, changed);
    for (const round of roundsOf(plan, changed)) {
      // Tests of the kernel take longer than the compiler.
      if (round.suite.root && (mutant.isExplained || !await check())) break;
      const options = { root, order, timeoutMs, changed };
      const { outcome, by } = await runRound(round, options);
      if (outcome !== "passed") return { outcome, by };
    }
    if (!await check()) return { outcome: "invalid" };
    return { outcome: mutant.isExplained ? "explained" : "survived" };
  });
}

/** Tries all of them, and returns whether tests noticed each. */
async function tryAll(
  mutants: readonly Mutant[],
  plan: Plan,
): Promise<boolean> {
  const files = [...new Set(mutants.map(({ file }) => file))];
  const rounds = files.flatMap((file) => roundsOf(plan, file));
  const timeoutMs = await timeLimit(plan, rounds);
  const trials: Trial[] = [];
  for (const mutant of mutants) {
    if (performance.now() > plan.endMs) break;
    const text = await Deno.readTextFile(`${plan.copy.root}/${mutant.file}`);
    const from = text.slice(mutant.start, mutant.end);
    const { outcome, by } = await tryMutant(plan, mutant, timeoutMs);
    const trial = { mutant, from, outcome, by };
    trials.push(trial);
    say(`[${trials.length}/${mutants.length}] ${describeTrial(trial)}`);
  }
  const survivors = trials.filter(({ outcome }) => outcome === "survived");
  say("");
  for (const trial of survivors) say(describeTrial(trial));
  say(describeScore(trials.map(({ outcome }) => outcome)));
  const untried = mutants.length - trials.length;
  if (untried > 0) say(`${untried} not tried: the time was over`);
  return survivors.length === 0;
}

async function main(options: Options): Promise<boolean> {
  const { all, changed, wiring, folder, sample, minutes, unit } = options;
  const endMs = performance.now() + minutes * 60_000;
  using copy = await TreeCopy.create();
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => {
      copy[Symbol.dispose]();
      Deno.exit(130);
    });
  }
  if (wiring) {
    const list = WIRING.filter(({ test }) => test.file.startsWith(folder));
    return await tryWiring(copy, list);
  }
  const found = changed ? await changedMutants() : await mutantsBelow([folder]);
  if (found.length === 0) {
    if (!changed) {
      throw new Error(`Cannot find anything to change in "${folder}"`);
    }
    say("no line of production files changed");
    return true;
  }
  const chosen = sampleOf(found, sample);
  const mutants = minutes === Infinity ? chosen : spread(chosen);
  say(`${mutants.length} of ${found.length} possible changes`);
  const suites = TRIED_SUITES.filter(({ name }) => !unit || name === "unit");
  const tests = (await filesBelow(suites.flatMap(({ paths }) => paths)))
    .filter((file) => file.endsWith("_test.ts"));
  const importers = await readImporters(copy.root, tests);
  const order = new TestOrder();
  return await tryAll(mutants, { copy, importers, order, all, endMs });
}

const options = readOptions();
try {
  Deno.exit(await main(options) || options.report ? 0 : 1);
} catch (error) {
  say(messageOf(error));
  Deno.exit(error instanceof UnjudgedError && options.report ? 0 : 2);
}
