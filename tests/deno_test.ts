import * as path from "node:path";
import {
  countJunit,
  type Counts,
  type Failure,
  reportedFiles,
} from "./junit.ts";

/** What {@link runDenoTest} runs, and where. */
export interface DenoTestRun {
  /** Test files, or directories of them; what is not there is left out. */
  readonly paths: readonly string[];
  /** More arguments of `deno test`. */
  readonly args: readonly string[];
  /** Whether the arguments leave tests out. */
  readonly filtered: boolean;
  /** Runs deno with these arguments, and says whether all went well; the report will be in the directory. */
  readonly run: (
    args: readonly string[],
    reportDir: string,
  ) => Promise<boolean>;
}

/** Runs `deno test` and counts. */
export async function runDenoTest(options: DenoTestRun): Promise<Counts> {
  const paths = await existing(options.paths);
  const reportDir = await Deno.makeTempDir({ prefix: "coil-test-" });
  const junit = path.join(reportDir, "junit.xml");
  const args = [
    ...["test", "-A", "--no-check", "--unstable-lazy-dynamic-imports"],
    ...[`--junit-path=${junit}`, ...options.args, ...paths],
  ];
  try {
    const success = await options.run(args, reportDir);
    const xml = await Deno.readTextFile(junit).catch(() => "");
    const all = countJunit(xml);
    // What is left out by a filter is in the report as skipped.
    const counts = options.filtered ? { ...all, skipped: [] } : all;
    if (success) return counts;
    const lost = options.filtered ? [] : await lostFiles(paths, xml);
    const failures = [...counts.failures, ...lost];
    if (failures.length === 0) failures.push(UNNAMED);
    return { ...counts, failures };
  } finally {
    await Deno.remove(reportDir, { recursive: true });
  }
}

const UNNAMED: Failure = {
  name: "a file that does not load, or all of it: see above",
  lines: [],
};

/** A file that does not load leaves no test case behind. */
async function lostFiles(
  paths: readonly string[],
  xml: string,
): Promise<Failure[]> {
  const reported = reportedFiles(xml);
  const files: string[] = [];
  for (const dir of paths) {
    for await (const file of testFiles(dir)) files.push(`./${file}`);
  }
  return files.filter((file) => !reported.has(file)).map((file) => ({
    name: `${file} does not load: see above`,
    lines: [],
  }));
}

async function* testFiles(dir: string): AsyncGenerator<string> {
  if (dir.endsWith(".ts")) return yield dir;
  for await (const entry of Deno.readDir(dir)) {
    const file = `${dir}/${entry.name}`;
    if (entry.isDirectory) yield* testFiles(file);
    else if (file.endsWith("_test.ts")) yield file;
  }
}

async function existing(paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const file of paths) {
    if (await Deno.stat(file).catch(() => undefined)) found.push(file);
  }
  return found;
}
