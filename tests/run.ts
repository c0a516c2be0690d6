// Runs test suites and ends with the line "N passed, N failed".
//
//   deno task test [SUITE...] [FILE...] [--filter TEXT] [--allow-skips] [-- DENO_TEST_ARGS]
import { type RunDeno, runDenoTest } from "./runner/deno_tests.ts";
import { type Counts, type Failure, ZERO } from "./runner/junit.ts";
import { sweepLabs } from "./lab/mod.ts";
import { preparePackages } from "./lab/packages.ts";
import { readRights, RIGHTS_DIRECTORY_ENV } from "./lab/rights_log.ts";
import {
  compareRights,
  grantedTo,
  type Misfit,
  refusedTo,
} from "./runner/rights.ts";
import { type Suite, SUITES } from "./runner/suites.ts";
import { cleanUpVmLab, runInTestVm } from "./runner/vm_run.ts";

function say(text: string): void {
  try {
    Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  } catch (error) {
    // After `| head` the tests go on, to their clean-up and their exit code.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

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
  const suites = SUITES.filter((s) =>
    (names.length === 0 && files.length === 0) || names.includes(s.name) ||
    files.some((file) => isOf(s, file))
  );
  return { suites, files, extra, allowSkips };
}

function isOf(suite: Suite, file: string): boolean {
  return suite.paths.some((dir) => file.startsWith(`${dir}/`));
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function succeeds(args: readonly string[]): Promise<boolean> {
  return await ended(spawn(args, { outputs: "inherit" }));
}

/** As `succeeds`; both outputs go through the function, in the colours that the terminal would get. */
const here: RunDeno = async (args, { output, env }) => {
  const child = spawn(args, { outputs: "piped", env });
  const done = ended(child);
  await Promise.all([child.stdout, child.stderr].map(async (stream) => {
    for await (const bytes of stream) output(bytes);
  }));
  return await done;
};

function spawn(
  args: readonly string[],
  { outputs, env }: {
    readonly outputs: "inherit" | "piped";
    readonly env?: Readonly<Record<string, string>> | undefined;
  },
): Deno.ChildProcess {
  const isColoured = Deno.stdout.isTerminal() && !Deno.env.has("NO_COLOR");
  return new Deno.Command(Deno.execPath(), {
    args: [...args],
    env: { ...env, ...(isColoured ? { FORCE_COLOR: "1" } : {}) },
    stdout: outputs,
    stderr: outputs,
  }).spawn();
}

async function ended(child: Deno.ChildProcess): Promise<boolean> {
  running = child;
  const { success } = await child.status;
  running = undefined;
  if (interrupted) await leave();
  return success;
}

let running: Deno.ChildProcess | undefined;
let interrupted = false;

/** Removes the labs of tests that were cut short, and ends. */
async function leave(): Promise<never> {
  if (Deno.uid() === 0) {
    await cleanUpVmLab(say);
    await sweepLabs({ log: say });
  }
  await Deno.remove(rightsDirectory, { recursive: true }).catch(() => {
    // A test that is being ended may write into it still.
  });
  Deno.exit(130);
}

function onSignal(): void {
  if (interrupted) return;
  interrupted = true;
  say("interrupted: cleaning up");
  // From a terminal it has the signal already.
  if (running === undefined) leave();
  else running.kill("SIGTERM");
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

async function runSuite(
  suite: Suite,
  extra: readonly string[],
): Promise<Counts> {
  if (suite.name === "static") return await runStatic();
  if (suite.root && Deno.uid() !== 0) {
    say(`suite ${suite.name} needs root: run it with sudo`);
    return { ...ZERO, skipped: [`all of ${suite.name}: not root`] };
  }
  try {
    await preparePackages(suite.packages, say);
    await suite.prepare?.(say);
  } catch (error) {
    say(`suite ${suite.name} cannot run: ${messageOf(error)}`);
    return failed(messageOf(error));
  }
  const wanted = files.filter((file) => isOf(suite, file));
  return await runDenoTest({
    paths: wanted.length > 0 ? wanted : suite.paths,
    args: [...suite.args, ...extra],
    jobs: suite.jobs,
    filtered: extra.length > 0,
    run: suite.inVm === true ? inVm : here,
  });
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
const total = { passed: 0, failed: 0, skipped: [] as string[] };
const failures: { readonly suite: string; readonly failure: Failure }[] = [];
const lines: string[] = [];

/** Runs something, and adds what came of it to all the rest. */
async function account(
  name: string,
  work: () => Promise<Counts>,
): Promise<void> {
  const started = performance.now();
  const counts = await work().catch((error) => failed(messageOf(error)));
  const { passed, skipped } = counts;
  const seconds = Math.round((performance.now() - started) / 1000);
  lines.push(
    `${
      name.padEnd(12)
    }${passed} passed, ${counts.failures.length} failed, ${skipped.length} skipped (${seconds} s)`,
  );
  total.passed += passed;
  total.failed += counts.failures.length;
  total.skipped.push(...skipped);
  for (const failure of counts.failures) {
    failures.push({ suite: name, failure });
  }
}

for (const suite of suites) {
  say(`\n=== ${suite.name}: ${suite.about}`);
  await account(suite.name, () => runSuite(suite, extra));
}
const isWhole = files.length === 0 && extra.length === 0 &&
  total.skipped.length === 0 &&
  NOTING.every((name) => suites.some((suite) => suite.name === name));
if (isWhole) {
  say("\n=== rights: what Coil's roles allow, and what all tests asked for");
  await account("rights", () => compareNoted(rightsDirectory));
}
await Deno.remove(rightsDirectory, { recursive: true });
// Again, at the end: who reads a log reads its last lines.
for (const { suite, failure } of failures) {
  say(`\nFAILED ${suite}: ${failure.name}`);
  for (const line of failure.lines) say(`    ${line}`);
}
say("");
for (const line of lines) say(line);
for (const name of total.skipped) say(`skipped: ${name}`);
// A skip is a test that did not run: it fails unless it was asked for.
const bad = total.failed + (allowSkips ? 0 : total.skipped.length);
say(`${total.passed} passed, ${bad} failed`);
Deno.exit(bad === 0 && total.passed > 0 ? 0 : 1);
