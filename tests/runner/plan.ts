import type { Suite } from "./suites.ts";

/** What a command line asks for; all suites when that is nothing. */
export interface Selection {
  readonly names: readonly string[];
  /** Files of any suite's. */
  readonly files: readonly string[];
}

/** A suite, and when it begins. */
export interface Step {
  readonly suite: Suite;
  /** Names of those of the run that have to end before. */
  readonly after: readonly string[];
}

/** Whether a file of tests is one of the suite's. */
export function isOf(suite: Suite, file: string): boolean {
  return suite.paths.some((dir) => file.startsWith(`${dir}/`));
}

/** The suites that are asked for, in the order of all. */
export function selectSuites(
  all: readonly Suite[],
  { names, files }: Selection,
): readonly Suite[] {
  return all.filter((suite) =>
    (names.length === 0 && files.length === 0) || names.includes(suite.name) ||
    files.some((file) => isOf(suite, file))
  );
}

/** When suites run: instead of one that is not asked for, they wait for those which that one waits for. */
export function planSteps(
  all: readonly Suite[],
  asked: readonly Suite[],
): readonly Step[] {
  const isAsked = (name: string) => asked.some((suite) => suite.name === name);
  const before = (names: readonly string[]): readonly string[] =>
    names.flatMap((name) =>
      isAsked(name)
        ? [name]
        : before(all.find((suite) => suite.name === name)?.after ?? [])
    );
  return asked.map((suite) => ({
    suite,
    after: [...new Set(before(suite.after ?? []))],
  }));
}
