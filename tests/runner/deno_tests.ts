import * as path from "node:path";
import { countJunit, type Counts, type Failure } from "./junit.ts";
import { UncaughtErrors } from "./uncaught_errors.ts";

/** What {@link runDenoTest} runs, and where. */
export interface DenoTestRun {
  /** Test files, or directories of them; what is not there is left out. */
  readonly paths: readonly string[];
  /** More arguments of `deno test`. */
  readonly args: readonly string[];
  /** How many files run at a time; one without it. */
  readonly jobs?: number | undefined;
  /** Whether all files are modules of one, so that what they share is loaded once. */
  readonly together?: boolean | undefined;
  /** Whether the arguments leave tests out. */
  readonly filtered: boolean;
  /** Gets what deno says, as it comes. */
  readonly show: (bytes: Uint8Array) => void;
  /** Runs deno with these arguments, and says whether all went well. */
  readonly run: RunDeno;
}

/** Runs deno somewhere. Its report will be in the directory; its output goes to the function. */
export type RunDeno = (
  args: readonly string[],
  options: {
    readonly reportDir: string;
    readonly output: (bytes: Uint8Array) => void;
    readonly env?: Readonly<Record<string, string>>;
  },
) => Promise<boolean>;

/** Runs `deno test` and counts. */
export async function runDenoTest(options: DenoTestRun): Promise<Counts> {
  const reportDir = await Deno.makeTempDir({ prefix: "coil-test-" });
  const found = await existing(options.paths);
  const paths = options.together === true
    ? [await joined(found, reportDir)]
    : found;
  const junit = path.join(reportDir, "junit.xml");
  const { jobs } = options;
  const args = [
    ...["test", "-A", "--no-check", "--unstable-lazy-dynamic-imports"],
    ...(jobs === undefined ? [] : ["--parallel"]),
    ...[`--junit-path=${junit}`, ...options.args, ...paths],
  ];
  const env = jobs === undefined ? {} : { DENO_JOBS: String(jobs) };
  const reader = new OutputReader();
  try {
    const output = (bytes: Uint8Array) => {
      options.show(bytes);
      reader.read(bytes);
    };
    const success = await options.run(args, { reportDir, output, env });
    const xml = await Deno.readTextFile(junit).catch(() => "");
    const all = countJunit(xml);
    // What is left out by a filter is in the report as skipped.
    const counts = options.filtered ? { ...all, skipped: [] } : all;
    if (success) return counts;
    const failures = [...counts.failures, ...reader.errors.failures];
    if (failures.length === 0) failures.push(UNNAMED);
    return { ...counts, failures };
  } finally {
    await Deno.remove(reportDir, { recursive: true });
  }
}

const UNNAMED: Failure = { name: "all of it: see above", lines: [] };

/** Reads the output's lines. */
class OutputReader {
  readonly errors = new UncaughtErrors();
  readonly #decoder = new TextDecoder();
  #rest = "";

  read(bytes: Uint8Array): void {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    const lines = text.split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.errors.line(line);
  }
}

/** A module that imports the files, in the order in which deno would run them. */
async function joined(
  paths: readonly string[],
  directory: string,
): Promise<string> {
  const files = new Set<string>();
  for (const file of paths) {
    if (file.endsWith("_test.ts")) files.add(path.resolve(file));
    else for (const one of await testsIn(file)) files.add(one);
  }
  const module = path.join(directory, "all_test.ts");
  const lines = [...files].map((file) => `import ${JSON.stringify(file)};\n`);
  await Deno.writeTextFile(module, lines.join(""));
  return module;
}

async function testsIn(directory: string): Promise<string[]> {
  const files: string[] = [];
  for await (const { name } of Deno.readDir(directory)) {
    if (name.endsWith("_test.ts")) files.push(path.resolve(directory, name));
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
