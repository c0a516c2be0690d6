// Runs test suites and ends with the line "N passed, N failed".
//
//   deno task test [SUITE...] [FILE...] [--filter TEXT] [--allow-skips] [-- DENO_TEST_ARGS]
import { messageOf } from "../lib/errors/mod.ts";
import { refuseTask } from "../lib/flags/mod.ts";
import { type RunDeno, runDenoTest } from "./runner/deno_tests.ts";
import { type Counts, type Failure, ZERO } from "./runner/junit.ts";
import { sweepLabs } from "./lab/mod.ts";
import { readRights, RIGHTS_DIRECTORY_ENV } from "./lab/rights_log.ts";
import { say, show } from "./runner/output.ts";
import { isOf, planSteps, selectSuites, type Step } from "./runner/plan.ts";
import { Preparation } from "./runner/preparation.ts";
import {
  DENO,
  interrupt,
  NICE_DENO,
  onMachine,
  unlessInterrupted,
} from "./runner/processes.ts";
import {
  compareRights,
  grantedTo,
  type Misfit,
  refusedTo,
} from "./runner/rights.ts";
import { type Show, ShownInTurn } from "./runner/shown_in_turn.ts";
import { StallWatch } from "./runner/stall.ts";
import { type Suite, SUITES } from "./runner/suites.ts";
import {
  describeFailures,
  describeResult,
  type Result,
  summarize,
} from "./runner/summary.ts";
import { cleanUpVmLabs, runInTestVm } from "./runner/vm_run.ts";

/** Command line: names of suites, files of theirs, and what goes on to `deno test`. */
function parse(args: readonly string[]) {
  const own = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  const extra = args.includes("--") ? args.slice(args.indexOf("--") + 1) : [];
  const names: string[] = [];
  const files: string[] = [];
  let allowSkips = false;
  for (let i = 0; i < own.length; i++) {
    const arg = own[i] ?? "";
    if (arg === "--allow-skips") allowSkips = true;
    else if (arg === "--filter") extra.push("--filter", own[++i] ?? "");
    else if (SUITES.some((s) => s.name === arg)) names.push(arg);
    else if (arg.endsWith("_test.ts")) files.push(arg);
    else if (arg === "--help" || arg === "-h") usage();
    else refuseTask("test", `There is no suite "${arg}"`);
  }
  const suites = selectSuites(SUITES, { names, files });
  return { suites, files, extra, allowSkips };
}

const encoder = new TextEncoder();

function usage(): never {
  say(
    "usage: deno task test [SUITE...] [FILE...] [--filter TEXT] [--allow-skips]",
  );
  for (const { name, about } of SUITES) say(`  ${name.padEnd(12)}${about}`);
  Deno.exit(0);
}

function secondsSince(started: number): number {
  return (performance.now() - started) / 1000;
}

/** Ends all tests, removes their labs, and ends. */
async function onSignal(): Promise<void> {
  await preparation.end();
  if (!await interrupt()) return;
  if (Deno.uid() === 0) await cleanUpVmLabs(say);
  await sweep();
  await Deno.remove(rightsDirectory, { recursive: true }).catch(() => {
    // A test that is being ended may write into it still.
  });
  Deno.exit(130);
}

/** Removes the labs of tests that were ended. */
async function sweep(): Promise<void> {
  if (Deno.uid() === 0) await sweepLabs({ log: say });
}

async function runStatic({ run, show }: Stage): Promise<Counts> {
  let passed = 0;
  const failures: Failure[] = [];
  for (const check of ["fmt:check", "lint", "check"]) {
    await using watch = new StallWatch();
    const { signal } = watch;
    const args = ["task", "--quiet", check];
    const output = (bytes: Uint8Array) => {
      watch.heard();
      show(bytes);
    };
    if (await run(args, { output, signal })) passed++;
    else {
      const lines = watch.reason === undefined ? [] : [watch.reason];
      failures.push({ name: `deno task ${check}`, lines });
    }
  }
  return { passed, failures, skipped: [] };
}

/** At most four minutes beside other suites, as many as three alone, and the one change that is tried then. */
const MUTANTS = ["--changed", "--unit", "--sample=15", "--minutes=4"];

/**
 * Says which changes no test notices, and fails on none: one in ten cannot be
 * noticed, and only who reads it can tell which.
 */
async function runMutants({ run, show }: Stage): Promise<Counts> {
  await using watch = new StallWatch();
  const { signal } = watch;
  const decoder = new TextDecoder();
  let text = "";
  const output = (bytes: Uint8Array) => {
    watch.heard();
    text += decoder.decode(bytes, { stream: true });
    show(bytes);
  };
  const args = ["run", "-A", "tests/mutate/main.ts", "--report", ...MUTANTS];
  if (!await run(args, { output, signal })) {
    return failed(watch.reason ?? "see above");
  }
  const notes = text.split("\n").filter((line) => line.startsWith("survived "));
  return { ...ZERO, passed: 1, notes };
}

/** What came of something that could not be run. */
function failed(why: string): Counts {
  const failure = { name: "it cannot run", lines: why.split("\n") };
  return { ...ZERO, failures: [failure] };
}

/** Waits until all is made that the suite needs. Returns what keeps it from running. */
async function obstacleTo(
  suite: Suite,
  say: (text: string) => void,
): Promise<Counts | undefined> {
  if (!mayRun(suite)) {
    say(`suite ${suite.name} needs root: run it with sudo`);
    return { ...ZERO, skipped: [`all of ${suite.name}: not root`] };
  }
  const obstacle = await preparation.ready(suite.name, say);
  if (obstacle === "") return undefined;
  say(`suite ${suite.name} cannot run: ${obstacle}`);
  return failed(obstacle);
}

function mayRun({ root }: Suite): boolean {
  return !root || Deno.uid() === 0;
}

/** Where a suite runs, and who gets what it says. */
interface Stage {
  readonly run: RunDeno;
  readonly show: Show;
}

/** Runs suites, each when those have ended that it waits for. */
async function runSteps(steps: readonly Step[]): Promise<readonly Result[]> {
  const shown = new ShownInTurn(steps.map(({ suite }) => suite.name), show);
  const running = new Map<string, Promise<Result>>();
  for (const { suite, after } of steps) {
    const before = after.map((name) => running.get(name));
    running.set(
      suite.name,
      Promise.all(before).then(() => runStep(suite, shown)),
    );
  }
  return await Promise.all(running.values());
}

async function runStep(suite: Suite, shown: ShownInTurn): Promise<Result> {
  await unlessInterrupted();
  const { name, about } = suite;
  const show = (bytes: Uint8Array) => shown.hear(name, bytes);
  const write = (text: string) => show(encoder.encode(`${text}\n`));
  const { current } = shown;
  if (current !== name) {
    say(`\n=== ${name} begins; its output follows ${current}'s`);
  }
  write(`\n=== ${name}: ${about}`);
  const started = performance.now();
  const counts = await obstacleTo(suite, write) ??
    await runSuite(suite, { run: runnerOf(suite, write), show })
      .catch((error) => failed(messageOf(error)));
  const result = { name, counts, seconds: secondsSince(started) };
  say(`\n=== ended: ${describeResult(result)}`);
  for (const text of describeFailures(result)) say(text);
  shown.end(name);
  return result;
}

function runnerOf({ inVm, nice }: Suite, log: (text: string) => void): RunDeno {
  if (inVm !== true) {
    return onMachine(nice === true ? NICE_DENO : DENO, { cleanUp: sweep });
  }
  return async (args, options) => {
    try {
      return await runInTestVm(args, { ...options, log });
    } catch (error) {
      log(messageOf(error));
      return false;
    }
  };
}

async function runSuite(suite: Suite, stage: Stage): Promise<Counts> {
  if (suite.name === "static") return await runStatic(stage);
  if (suite.name === "mutants") return await runMutants(stage);
  const wanted = files.filter((file) => isOf(suite, file));
  return await runDenoTest({
    paths: wanted.length > 0 ? wanted : suite.paths,
    args: [...suite.args, ...extra],
    jobs: suite.jobs,
    longest: suite.longest,
    together: suite.together,
    fileMinutes: suite.fileMinutes,
    env: await suite.env?.(),
    filtered: extra.length > 0,
    ...stage,
  });
}

/** Suites whose labs note who used which right of the API server. */
const NOTING = ["apiserver", "e2e"];
const ACCOUNTS = ["coild", "coil-controller", "coil-router"];
/** Of the overlay compat: halves of coil-controller, whose rights they share out. */
const HALVES = ["coil-ipam-controller", "coil-egress-controller"];

async function checkRights(): Promise<Result> {
  const started = performance.now();
  const counts = await compareNoted(rightsDirectory)
    .catch((error) => failed(messageOf(error)));
  return { name: "rights", counts, seconds: secondsSince(started) };
}

/** Compares Coil's roles with what all of a run's tests used of them; only whole suites say what is spare. */
async function compareNoted(directory: string): Promise<Counts> {
  const used = await readRights(directory);
  const failures: Failure[] = [];
  const note = (name: string, misfit: Partial<Misfit>) => {
    const lines = Object.entries(misfit).flatMap(([kind, rights]) =>
      rights.map((right: string) => `${kind}: ${right}`)
    );
    if (lines.length > 0) failures.push({ name: `rights of ${name}`, lines });
  };
  for (const name of ACCOUNTS) {
    const account = `kube-system:${name}`;
    const granted = await grantedTo(account);
    note(name, compareRights(account, { used, granted }));
  }
  for (const name of HALVES) {
    note(name, { refused: refusedTo(`kube-system:${name}`, used) });
  }
  const passed = ACCOUNTS.length + HALVES.length - failures.length;
  return { passed, failures, skipped: [] };
}

const { suites, files, extra, allowSkips } = parse(Deno.args);
const rightsDirectory = await Deno.makeTempDir({ prefix: "coil-rights-" });
Deno.env.set(RIGHTS_DIRECTORY_ENV, rightsDirectory);
const preparation = Preparation.start(
  suites.filter(mayRun).map(({ name }) => name),
);
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  Deno.addSignalListener(signal, onSignal);
}
const results = [...await runSteps(planSteps(SUITES, suites))];
await unlessInterrupted();
const isWhole = files.length === 0 && extra.length === 0 &&
  results.every(({ counts }) => counts.skipped.length === 0) &&
  NOTING.every((name) => suites.some((suite) => suite.name === name));
if (isWhole) {
  say("\n=== rights: what Coil's roles allow, and what all tests asked for");
  results.push(await checkRights());
}
await Deno.remove(rightsDirectory, { recursive: true });
const { lines, isGood } = summarize(results, { allowSkips });
for (const line of lines) say(line);
Deno.exit(isGood ? 0 : 1);
