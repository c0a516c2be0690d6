// Runs test suites and ends with the line "N passed, N failed".
//
//   deno task test [SUITE...] [FILE...] [--filter TEXT] [--allow-skips] [-- DENO_TEST_ARGS]
import { type RunDeno, runDenoTest } from "./runner/deno_tests.ts";
import { type Counts, type Failure, ZERO } from "./runner/junit.ts";
import { sweepLabs } from "./lab/mod.ts";
import { preparePackages } from "./lab/packages.ts";
import { readRights, RIGHTS_DIRECTORY_ENV } from "./lab/rights_log.ts";
import { say, show } from "./runner/output.ts";
import { isOf, planTurns, selectSuites, type Turn } from "./runner/plan.ts";
import {
  compareRights,
  grantedTo,
  type Misfit,
  refusedTo,
} from "./runner/rights.ts";
import { type Suite, SUITES } from "./runner/suites.ts";
import {
  describeFailures,
  describeResult,
  type Result,
  summarize,
} from "./runner/summary.ts";
import { cleanUpVmLab, runInTestVm } from "./runner/vm_run.ts";

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
    else usage(arg);
  }
  const suites = selectSuites(SUITES, { names, files });
  return { suites, files, extra, allowSkips };
}

function usage(arg: string): never {
  const help = arg === "--help" || arg === "-h";
  if (!help) say(`Cannot run suite "${arg}": there is none of that name`);
  say(
    "usage: deno task test [SUITE...] [FILE...] [--filter TEXT] [--allow-skips]",
  );
  for (const { name, about } of SUITES) say(`  ${name.padEnd(12)}${about}`);
  Deno.exit(help ? 0 : 2);
}

function secondsSince(started: number): number {
  return (performance.now() - started) / 1000;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** How deno is started. Of two programs that want the same processor the nice one gets a tenth: sched(7). */
const DENO = [Deno.execPath()];
const NICE_DENO = ["nice", "--adjustment=10", ...DENO];

async function succeeds(args: readonly string[]): Promise<boolean> {
  return await ended(spawn([...DENO, ...args], { outputs: "inherit" }));
}

/** As `succeeds`; both outputs go through the function, in the colours that the terminal would get. */
function onMachine(deno: readonly string[]): RunDeno {
  return async (args, { output, env }) => {
    const child = spawn([...deno, ...args], { outputs: "piped", env });
    const done = ended(child);
    await Promise.all([child.stdout, child.stderr].map(async (stream) => {
      for await (const bytes of stream) output(bytes);
    }));
    return await done;
  };
}

function spawn(
  [command = "", ...args]: readonly string[],
  { outputs, env }: {
    readonly outputs: "inherit" | "piped";
    readonly env?: Readonly<Record<string, string>> | undefined;
  },
): Deno.ChildProcess {
  const isColoured = Deno.stdout.isTerminal() && !Deno.env.has("NO_COLOR");
  return new Deno.Command(command, {
    args,
    env: { ...env, ...(isColoured ? { FORCE_COLOR: "1" } : {}) },
    stdout: outputs,
    stderr: outputs,
  }).spawn();
}

async function ended(child: Deno.ChildProcess): Promise<boolean> {
  running.add(child);
  const { success } = await child.status;
  running.delete(child);
  await unlessInterrupted();
  return success;
}

/** While labs are removed nothing else goes on. */
async function unlessInterrupted(): Promise<void> {
  if (interrupted) await Promise.withResolvers<never>().promise;
}

const running = new Set<Deno.ChildProcess>();
let interrupted = false;

/** Ends all tests, removes their labs, and ends. */
async function onSignal(): Promise<void> {
  if (interrupted) return;
  interrupted = true;
  say("interrupted: cleaning up");
  await Promise.all([...running].map(end));
  if (Deno.uid() === 0) {
    await cleanUpVmLab(say);
    await sweepLabs({ log: say });
  }
  await Deno.remove(rightsDirectory, { recursive: true }).catch(() => {
    // A test that is being ended may write into it still.
  });
  Deno.exit(130);
}

async function end(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGTERM");
  } catch (error) {
    // From a terminal it has the signal already, and may have ended.
    if (!(error instanceof TypeError)) throw error;
  }
  await child.status;
}

async function runStatic(): Promise<Counts> {
  let passed = 0;
  const failures: Failure[] = [];
  for (const check of ["fmt:check", "lint", "check"]) {
    if (await succeeds(["task", "--quiet", check])) passed++;
    else failures.push({ name: `deno task ${check}`, lines: [] });
  }
  return { passed, failures, skipped: [] };
}

/** What came of something that could not be run. */
function failed(why: string): Counts {
  const failure = { name: "it cannot run", lines: why.split("\n") };
  return { ...ZERO, failures: [failure] };
}

/** A suite that has all that it needs, or what keeps it from running. */
interface Prepared {
  readonly suite: Suite;
  readonly obstacle: Counts | undefined;
  readonly seconds: number;
}

async function prepare(suite: Suite): Promise<Prepared> {
  say(`\n=== ${suite.name}: ${suite.about}`);
  const started = performance.now();
  const obstacle = await obstacleTo(suite);
  return { suite, obstacle, seconds: secondsSince(started) };
}

/** Makes what it needs. */
async function obstacleTo(suite: Suite): Promise<Counts | undefined> {
  if (suite.root && Deno.uid() !== 0) {
    say(`suite ${suite.name} needs root: run it with sudo`);
    return { ...ZERO, skipped: [`all of ${suite.name}: not root`] };
  }
  try {
    await preparePackages(suite.packages, say);
    await suite.prepare?.(say);
    return undefined;
  } catch (error) {
    say(`suite ${suite.name} cannot run: ${messageOf(error)}`);
    return failed(messageOf(error));
  }
}

/** Where a suite runs, and who gets what it says. */
interface Stage {
  readonly run: RunDeno;
  readonly show: (bytes: Uint8Array) => void;
}

async function runPrepared(
  { suite, obstacle, seconds }: Prepared,
  stage: Stage,
): Promise<Result> {
  const started = performance.now();
  const counts = obstacle ??
    await runSuite(suite, stage).catch((error) => failed(messageOf(error)));
  const { name } = suite;
  return { name, counts, seconds: seconds + secondsSince(started) };
}

async function runSuite(suite: Suite, stage: Stage): Promise<Counts> {
  if (suite.name === "static") return await runStatic();
  const wanted = files.filter((file) => isOf(suite, file));
  return await runDenoTest({
    paths: wanted.length > 0 ? wanted : suite.paths,
    args: [...suite.args, ...extra],
    jobs: suite.jobs,
    together: suite.together,
    filtered: extra.length > 0,
    ...stage,
  });
}

/** A suite that runs beside another, and what it has said so far. */
interface Held {
  readonly name: string;
  readonly output: readonly Uint8Array[];
  readonly result: Promise<Result>;
}

/** Prepares all of its suites, one after the other, and runs them at the same time. */
async function runTurn({ suite, beside }: Turn): Promise<readonly Result[]> {
  const first = await prepare(suite);
  const others: Prepared[] = [];
  for (const other of beside) others.push(await prepare(other));
  const held: Held[] = [];
  for (const other of others) {
    const { name, after } = other.suite;
    const before = held.find((one) => one.name === after)?.result;
    say(
      `${name} runs in parallel with ${suite.name}; its output follows`,
    );
    const output: Uint8Array[] = [];
    const show = (bytes: Uint8Array) => void output.push(bytes);
    const stage = { run: onMachine(NICE_DENO), show };
    const result = tellEnd(
      Promise.resolve(before).then(() => runPrepared(other, stage)),
    );
    held.push({ name, output, result });
  }
  const run = suite.inVm === true ? inVm : onMachine(DENO);
  const results = [await runPrepared(first, { run, show })];
  for (const { name, output, result } of held) {
    say(`\n=== ${name}, which runs beside ${suite.name}: waiting for its end`);
    results.push(await result);
    for (const bytes of output) show(bytes);
  }
  return results;
}

/** What it said comes later; a run may be ended before. */
async function tellEnd(running: Promise<Result>): Promise<Result> {
  const result = await running;
  say(`\n=== ended: ${describeResult(result)}`);
  for (const text of describeFailures(result)) say(text);
  return result;
}

const inVm: RunDeno = async (args, options) => {
  try {
    return await runInTestVm(args, { ...options, log: say });
  } catch (error) {
    say(messageOf(error));
    return false;
  }
};

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
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  Deno.addSignalListener(signal, onSignal);
}
const results: Result[] = [];
for (const turn of planTurns(suites)) {
  results.push(...await runTurn(turn));
  await unlessInterrupted();
}
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
