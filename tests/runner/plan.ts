import type { Suite } from "./suites.ts";

/** What a command line asks for; all suites when that is nothing. */
export interface Selection {
  readonly names: readonly string[];
  /** Files of any suite's. */
  readonly files: readonly string[];
}

/** Suites that run at the same time. */
export interface Turn {
  /** Shows what it does while it does it. */
  readonly suite: Suite;
  /** They show it when they have ended, and after the former. */
  readonly beside: readonly Suite[];
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

/** When suites run. One that would run beside a suite which is not among them has a turn of its own. */
export function planTurns(suites: readonly Suite[]): readonly Turn[] {
  const names = new Set<string | undefined>(suites.map(({ name }) => name));
  return suites.filter(({ beside }) => !names.has(beside)).map((suite) => ({
    suite,
    beside: suites.filter(({ beside }) => beside === suite.name),
  }));
}
