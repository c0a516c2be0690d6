import * as path from "node:path";
import type { Clock } from "../../lib/async/mod.ts";
import { countJunit, type Counts, type Failure } from "./junit.ts";
import { isProgress, Progress } from "./progress.ts";
import { RUNNING_FILES_ENV, runningFiles } from "./running_files.ts";
import { ShownInTurn } from "./shown_in_turn.ts";
import { LIMITS, type StallLimits, StallWatch } from "./stall.ts";
import { UncaughtErrors } from "./uncaught_errors.ts";

/** What {@link runDenoTest} runs, and where. */
export interface DenoTestRun {
  /** Test files, or directories of them; what is not there is left out. */
  readonly paths: readonly string[];
  /** More arguments of `deno test`. */
  readonly args: readonly string[];
  /** How many files run at a time, or modules when all files are modules of some; one without it. */
  readonly jobs?: number | undefined;
  /** Those of the files that take longest, which begin first when several run at a time. */
  readonly longest?: readonly string[] | undefined;
  /** Whether all files are modules of one, or of one for each job, so that what they share is loaded once. */
  readonly together?: boolean | undefined;
  /** How long a file may take, or a test when all files are modules of one. Default as in `LIMITS`. */
  readonly fileMinutes?: number | undefined;
  /** More of its environment. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Whether the arguments leave tests out. */
  readonly filtered: boolean;
  /** Gets what deno says, as it comes. */
  readonly show: (bytes: Uint8Array) => void;
  /** Runs deno with these arguments, and says whether all went well. */
  readonly run: RunDeno;
  /** Another clock than the machine's. */
  readonly clock?: Clock;
}

/** Runs deno somewhere until it ends or the signal aborts. What it writes into the directory stays; its output goes to the function. */
export type RunDeno = (
  args: readonly string[],
  options: {
    readonly reportDir?: string;
    readonly output: (bytes: Uint8Array) => void;
    readonly env?: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
    /** Number of the module when files are modules of some, from 0. */
    readonly lane?: number;
  },
) => Promise<boolean>;

/** Runs `deno test` and counts. */
export async function runDenoTest(options: DenoTestRun): Promise<Counts> {
  const { jobs = 1, longest, together, show } = options;
  const found = await existing(options.paths);
  if (together !== true) {
    const paths = longest === undefined
      ? found
      : longestFirst(await filesOf(found), longest);
    return await runOnce({ ...options, paths });
  }
  const files = await filesOf(found);
  // In deno's order: tests that take modules out of the kernel come long after those that leave it busy.
  const lanes = dealt(longestFirst(files, longest), jobs)
    .map((lane) => files.filter((file) => lane.includes(file)));
  const shown = new ShownInTurn(lanes.map((_, lane) => `${lane}`), show);
  const counts = await Promise.all(lanes.map((paths, lane) =>
    runOnce({
      ...options,
      paths,
      jobs: undefined,
      lane,
      show: (bytes) => shown.hear(`${lane}`, bytes),
    }).finally(() => shown.end(`${lane}`))
  ));
  return {
    passed: counts.reduce((sum, { passed }) => sum + passed, 0),
    failures: counts.flatMap(({ failures }) => failures),
    skipped: counts.flatMap(({ skipped }) => skipped),
  };
}

/** The files in at most so many parts, which take about as long where the first files take longest. */
export function dealt(files: readonly string[], count: number): string[][] {
  const hands: string[][] = [];
  for (const [n, file] of files.entries()) {
    const place = n % count;
    const isBack = Math.floor(n / count) % 2 === 1;
    (hands[isBack ? count - 1 - place : place] ??= []).push(file);
  }
  return hands;
}

async function runOnce(
  options: DenoTestRun & { readonly lane?: number },
): Promise<Counts> {
  const reportDir = await Deno.makeTempDir({ prefix: "coil-test-" });
  const { jobs, lane, together } = options;
  const paths = together === true
    ? [await joinTests(options.paths, reportDir)]
    : options.paths;
  const junit = path.join(reportDir, "junit.xml");
  const args = [
    ...["test", "-A", "--no-check", "--unstable-lazy-dynamic-imports"],
    ...(jobs === undefined ? [] : ["--parallel"]),
    ...[`--preload=${MARK_RUNNING}`, `--junit-path=${junit}`],
    ...[...options.args, ...paths],
  ];
  const marks = path.join(reportDir, "running");
  await Deno.mkdir(marks);
  const env = {
    ...options.env,
    [RUNNING_FILES_ENV]: marks,
    ...(jobs === undefined ? {} : { DENO_JOBS: String(jobs) }),
  };
  const reader = new OutputReader();
  const inTurn = !args.includes("--parallel");
  await using watch = new StallWatch({
    clock: options.clock,
    limits: limitsOf(options),
    running: together === true
      ? () => Promise.resolve(reader.progress.current)
      : () => runningFiles(marks, { inTurn }),
  });
  try {
    const output = (bytes: Uint8Array) => {
      options.show(bytes);
      if (reader.read(bytes)) watch.heard();
    };
    const { signal } = watch;
    const success = await options.run(args, {
      reportDir,
      output,
      env,
      signal,
      ...(lane !== undefined && { lane }),
    });
    const xml = await Deno.readTextFile(junit).catch(() => "");
    const all = countJunit(xml);
    // What is left out by a filter is in the report as skipped.
    const counts = options.filtered ? { ...all, skipped: [] } : all;
    if (success) return counts;
    const failures = [...counts.failures, ...reader.errors.failures];
    if (watch.reason !== undefined) {
      const lines = reader.progress.describe(await runningFiles(marks));
      failures.push({ name: watch.reason, lines });
    }
    if (failures.length === 0) failures.push(UNNAMED);
    return { ...counts, failures };
  } finally {
    await Deno.remove(reportDir, { recursive: true });
  }
}

function limitsOf({ fileMinutes }: DenoTestRun): StallLimits {
  return fileMinutes === undefined
    ? LIMITS
    : { ...LIMITS, fileMs: fileMinutes * 60_000 };
}

function longestFirst(
  files: readonly string[],
  longest: readonly string[] = [],
): readonly string[] {
  const first = longest.map((file) => path.resolve(file));
  const isFirst = (file: string) => first.includes(file);
  return [
    ...first.filter((file) => files.includes(file)),
    ...files.filter((file) => !isFirst(file)),
  ];
}

const MARK_RUNNING = import.meta.resolve("./mark_running.ts");

const UNNAMED: Failure = { name: "all of it: see above", lines: [] };

/** Reads the output's lines. */
class OutputReader {
  readonly errors = new UncaughtErrors();
  readonly progress = new Progress();
  readonly #decoder = new TextDecoder();
  #rest = "";

  /** Returns whether tests went on: deno's own word that one is slow does not count. */
  read(bytes: Uint8Array): boolean {
    const text = this.#decoder.decode(bytes, { stream: true });
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      this.errors.line(line);
      this.progress.line(line);
    }
    // A test that has begun is the beginning of a line.
    this.progress.line(this.#rest);
    return isProgress(text);
  }
}

/** A module that imports the files, and those of the directories, in their order. */
export async function joinTests(
  paths: readonly string[],
  directory: string,
): Promise<string> {
  const module = path.join(directory, "all_test.ts");
  const files = await filesOf(paths);
  const lines = files.map((file) => `import ${JSON.stringify(file)};\n`);
  await Deno.writeTextFile(module, lines.join(""));
  return module;
}

/** The files, and those in the directories, each once. */
async function filesOf(paths: readonly string[]): Promise<readonly string[]> {
  const files = new Set<string>();
  for (const file of paths) {
    if (file.endsWith("_test.ts")) files.add(path.resolve(file));
    else for (const one of await testsIn(file)) files.add(one);
  }
  return [...files];
}

/** Those of its directories, too. */
async function testsIn(directory: string): Promise<string[]> {
  const files: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    const file = path.resolve(directory, name);
    if (isDirectory) files.push(...await testsIn(file));
    else if (name.endsWith("_test.ts")) files.push(file);
  }
  return files.sort();
}

async function existing(paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const file of paths) {
    if (await Deno.stat(file).catch(() => undefined)) found.push(file);
  }
  return found;
}
