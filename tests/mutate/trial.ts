import { basename, dirname } from "node:path";
import { startTimer } from "../../lib/async/mod.ts";
import { unitOf } from "../arch/ranks.ts";
import { joinTests } from "../runner/deno_tests.ts";
import { isOf } from "../runner/plan.ts";
import { type Suite, SUITES } from "../runner/suites.ts";

/** What became of a mutant: tests failed, did not end, or noticed nothing, which a comment in the code may explain; `invalid` ones do not compile. */
export type Outcome =
  | "killed"
  | "timed out"
  | "survived"
  | "explained"
  | "invalid";

/** Suites whose tests can run by themselves, in the order of their cost. */
const TRIED = ["unit", "netns"];
export const TRIED_SUITES: readonly Suite[] = SUITES.filter(({ name, root }) =>
  TRIED.includes(name) && (!root || Deno.uid() === 0)
);

/** Tests that run in one process. */
export interface Round {
  readonly suite: Suite;
  readonly files: readonly string[];
}

/** The tests that import a file, nearest first: those of its folder, those of its unit, and with `all` all others. */
export function roundsFor(
  file: string,
  importers: readonly string[],
  { all }: { readonly all: boolean },
): Round[] {
  const isNear = (test: string) => dirname(test) === dirname(file);
  // What needs the kernel is called "podnet_*_test.ts" for "lib/podnet", and by a room's name for a room.
  const owners = [unitOf(file), dirname(file)].map((path) => basename(path));
  const isOwn = (test: string) =>
    unitOf(test) === unitOf(file) ||
    owners.some((owner) => basename(test).startsWith(`${owner}_`));
  return TRIED_SUITES.flatMap((suite) => {
    const tests = importers.filter((test) => isOf(suite, test));
    return [
      tests.filter(isNear),
      tests.filter((test) => isOwn(test) && !isNear(test)),
      all ? tests.filter((test) => !isOwn(test)) : [],
    ].map((files) => ({ suite, files })).filter(({ files }) =>
      files.length > 0
    );
  });
}

/** A test's place, or a file that failed outside of its tests. */
const FAILED = /(?: => |^)\.\/(\S+_test\.ts)(?::\d| \(uncaught error\))/gm;
/** What `deno test` says when it begins with a file. */
const BEGUN = /^running \d+ tests? from \.\/(\S+_test\.ts)$/gm;

/**
 * The order in which files of tests run: those that are called as the changed file first, then those that noticed a
 * change last, so that most changes end their round soon.
 */
export class TestOrder {
  readonly #failed: string[] = [];

  sorted(files: readonly string[], changed: string): string[] {
    const words = new Set(wordsOf(changed));
    const likeness = (file: string) =>
      wordsOf(basename(file)).filter((word) => words.has(word)).length;
    const rank = (file: string) => this.#failed.lastIndexOf(file);
    return files.toSorted((a, b) =>
      likeness(b) - likeness(a) || rank(b) - rank(a)
    );
  }

  /** Reads from the output of `deno test` which file has failed first: of tests that another file defines it is the last one begun. */
  learn(output: string): string | undefined {
    const [failed] = output.matchAll(FAILED);
    const file = (failed ?? [...output.matchAll(BEGUN)].at(-1))?.[1];
    if (file !== undefined) this.#failed.push(file);
    return file;
  }
}

function wordsOf(path: string): string[] {
  return path.split(/\W|_/);
}

export interface RoundOptions {
  readonly root: string;
  readonly timeoutMs: number;
  readonly order: TestOrder;
  /** The file that has a change; none without it. */
  readonly changed?: string;
  /** Gets what the tests print. */
  readonly onOutput?: (text: string) => void;
}

/** How a round ended, and the file whose test failed, where that is known. */
export interface RoundResult {
  readonly outcome: "passed" | "killed" | "timed out";
  readonly by?: string | undefined;
}

/** Runs the tests up to the first that fails. One that spins is killed. */
export async function runRound(
  { suite, files }: Round,
  { root, timeoutMs, order, changed = "", onOutput }: RoundOptions,
): Promise<RoundResult> {
  const paths = order.sorted(files, changed).map((file) => `${root}/${file}`);
  // Modules that tests share are loaded once; those of netns need a process for each.
  const tests = suite.root ? paths : [await joinTests(paths, root)];
  const args = ["test", "-A", "--no-check", "--unstable-lazy-dynamic-imports"];
  const own = suite.args.filter((arg) => arg !== "--parallel");
  const child = new Deno.Command("nice", {
    args: [Deno.execPath(), ...args, "--fail-fast", ...own, ...tests],
    cwd: root,
    env: { NO_COLOR: "1" },
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let isLate = false;
  using _timer = startTimer(timeoutMs, () => {
    isLate = true;
    child.kill("SIGKILL");
  });
  const printed = child.stdout.text();
  const { success } = await child.status;
  // What a test that was killed has started may still hold the pipe.
  const output = isLate ? "" : await printed;
  onOutput?.(output);
  if (isLate) return { outcome: "timed out" };
  if (success) return { outcome: "passed" };
  return { outcome: "killed", by: order.learn(output) };
}

/** Whether the tree's file passes the type checker. */
export async function compiles(root: string, file: string): Promise<boolean> {
  const { success } = await new Deno.Command("nice", {
    args: [Deno.execPath(), "check", file],
    cwd: root,
    stdout: "null",
    stderr: "null",
  }).output();
  return success;
}
