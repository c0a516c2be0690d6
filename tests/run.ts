// Runs test suites and ends with the line "N passed, N failed".
//
//   deno task test [SUITE...] [--filter TEXT] [--allow-skips] [-- DENO_TEST_ARGS]
import { ensureControlPlane, sweepLabs } from "./lab/mod.ts";
import {
  BUILD_PACKAGES,
  CONTROL_PLANE_PACKAGES,
  NET_PACKAGES,
  preparePackages,
} from "./lab/packages.ts";
import { buildExecutable } from "../deploy/executable/mod.ts";
import {
  countJunit,
  type Counts,
  type Failure,
  reportedFiles,
  ZERO,
} from "./junit.ts";

interface Suite {
  readonly name: string;
  readonly about: string;
  readonly paths: readonly string[];
  /** Debian packages, each with a command or file that proves it. */
  readonly packages: Readonly<Record<string, string>>;
  readonly root: boolean;
  readonly args: readonly string[];
  /** What takes long the first time and would keep a test silent. */
  readonly prepare?: () => Promise<unknown>;
}

const PING = { "iputils-ping": "ping" };

const SUITES: readonly Suite[] = [
  {
    name: "static",
    about: "format, lint and types",
    paths: [],
    packages: {},
    root: false,
    args: [],
  },
  {
    name: "unit",
    about: "pure logic and the layers rule",
    paths: ["lib", "roles", "deploy", "tests/arch", "tests/bench"],
    packages: {},
    root: false,
    args: ["--parallel"],
  },
  {
    name: "executable",
    about: "the one compiled file, called by every role's name",
    paths: ["tests/executable"],
    packages: { ...BUILD_PACKAGES, ...NET_PACKAGES },
    root: true,
    args: [],
    prepare: () => buildExecutable({ log: say }),
  },
  {
    name: "netns",
    about: "the real kernel in fresh network namespaces",
    paths: ["tests/netns"],
    packages: { ...NET_PACKAGES, ...PING },
    root: true,
    args: [],
  },
  {
    name: "apiserver",
    about: "real etcd and kube-apiserver, nodes as namespaces",
    paths: ["tests/apiserver"],
    packages: {
      ...CONTROL_PLANE_PACKAGES,
      ...BUILD_PACKAGES,
      ...PING,
      curl: "curl",
    },
    root: true,
    args: [],
    prepare: async () => {
      await sweepLabs({ log: say });
      await ensureControlPlane({ log: say });
      await buildExecutable({ log: say });
    },
  },
];

function say(text: string): void {
  try {
    Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  } catch (error) {
    // After `| head` the tests go on, to their clean-up and their exit code.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

/** Command line: names of suites, and what goes on to `deno test`. */
function parse(args: readonly string[]) {
  const own = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  const extra = args.includes("--") ? args.slice(args.indexOf("--") + 1) : [];
  const names: string[] = [];
  let allowSkips = false;
  for (let i = 0; i < own.length; i++) {
    const arg = own[i] ?? "";
    if (arg === "--allow-skips") allowSkips = true;
    else if (arg === "--filter") extra.push("--filter", own[++i] ?? "");
    else if (SUITES.some((s) => s.name === arg)) names.push(arg);
    else usage(arg);
  }
  const suites = SUITES.filter((s) =>
    names.length === 0 || names.includes(s.name)
  );
  return { suites, extra, allowSkips };
}

function usage(arg: string): never {
  const help = arg === "--help" || arg === "-h";
  if (!help) say(`Cannot run suite "${arg}": there is none of that name`);
  say("usage: deno task test [SUITE...] [--filter TEXT] [--allow-skips]");
  for (const { name, about } of SUITES) say(`  ${name.padEnd(12)}${about}`);
  Deno.exit(help ? 0 : 2);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function succeeds(args: readonly string[]): Promise<boolean> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [...args],
    stdout: "inherit",
    stderr: "inherit",
  }).spawn();
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
  if (Deno.uid() === 0) await sweepLabs({ log: say });
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

async function runDenoTest(
  suite: Suite,
  extra: readonly string[],
): Promise<Counts> {
  const junit = await Deno.makeTempFile({ suffix: ".xml" });
  try {
    const success = await succeeds([
      "test",
      "-A",
      "--no-check",
      "--unstable-lazy-dynamic-imports",
      `--junit-path=${junit}`,
      ...suite.args,
      ...extra,
      ...await existing(suite.paths),
    ]);
    const xml = await Deno.readTextFile(junit);
    const counts = countJunit(xml);
    if (success) return counts;
    const lost = await lostFiles(suite, { xml, filtered: extra.length > 0 });
    const failures = [...counts.failures, ...lost];
    if (failures.length === 0) failures.push(UNNAMED);
    return { ...counts, failures };
  } finally {
    await Deno.remove(junit);
  }
}

const UNNAMED: Failure = {
  name: "a file that does not load: see above",
  lines: [],
};

/** A file that does not load leaves no test case behind; a filter hides whole files, too. */
async function lostFiles(
  suite: Suite,
  report: { readonly xml: string; readonly filtered: boolean },
): Promise<Failure[]> {
  if (report.filtered) return [];
  const reported = reportedFiles(report.xml);
  const files: string[] = [];
  for (const path of await existing(suite.paths)) {
    for await (const file of testFiles(path)) files.push(`./${file}`);
  }
  return files.filter((file) => !reported.has(file)).map((file) => ({
    name: `${file} does not load: see above`,
    lines: [],
  }));
}

async function* testFiles(dir: string): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(dir)) {
    const path = `${dir}/${entry.name}`;
    if (entry.isDirectory) yield* testFiles(path);
    else if (path.endsWith("_test.ts")) yield path;
  }
}

async function existing(paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    if (await Deno.stat(path).catch(() => undefined)) found.push(path);
  }
  return found;
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
    await suite.prepare?.();
  } catch (error) {
    say(`suite ${suite.name} cannot run: ${messageOf(error)}`);
    const lines = messageOf(error).split("\n");
    return { ...ZERO, failures: [{ name: "it cannot run", lines }] };
  }
  return await runDenoTest(suite, extra);
}

const { suites, extra, allowSkips } = parse(Deno.args);
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  Deno.addSignalListener(signal, onSignal);
}
const total = { passed: 0, failed: 0, skipped: [] as string[] };
const failures: { readonly suite: string; readonly failure: Failure }[] = [];
const lines: string[] = [];
for (const suite of suites) {
  say(`\n=== ${suite.name}: ${suite.about}`);
  const started = performance.now();
  const counts = await runSuite(suite, extra);
  const { passed, skipped } = counts;
  const failed = counts.failures.length;
  const seconds = Math.round((performance.now() - started) / 1000);
  lines.push(
    `${
      suite.name.padEnd(12)
    }${passed} passed, ${failed} failed, ${skipped.length} skipped (${seconds} s)`,
  );
  total.passed += passed;
  total.failed += failed;
  total.skipped.push(...skipped);
  for (const failure of counts.failures) {
    failures.push({ suite: suite.name, failure });
  }
}
// Again, at the end: who reads a log reads its last lines.
for (const { suite, failure } of failures) {
  say(`\nFAILED ${suite}: ${failure.name}`);
  for (const line of failure.lines) say(`    ${line}`);
}
say("");
for (const line of lines) say(line);
for (const name of total.skipped) say(`skipped: ${name}`);
// A skip is a test that did not run: it fails unless it was asked for.
const failed = total.failed + (allowSkips ? 0 : total.skipped.length);
say(`${total.passed} passed, ${failed} failed`);
Deno.exit(failed === 0 && total.passed > 0 ? 0 : 1);
