import type { Counts } from "./junit.ts";

/** What came of a suite, or of what else was checked. */
export interface Result {
  readonly name: string;
  readonly counts: Counts;
  readonly seconds: number;
}

/** The end of a run. */
export interface Summary {
  readonly lines: readonly string[];
  readonly isGood: boolean;
}

/** Sums up. The last line is "N passed, N failed"; a skip is a test that did not run: it fails unless it was asked for. */
export function summarize(
  results: readonly Result[],
  { allowSkips }: { readonly allowSkips: boolean },
): Summary {
  const all = results.map(({ counts }) => counts);
  const passed = all.reduce((sum, counts) => sum + counts.passed, 0);
  const failed = all.reduce((sum, { failures }) => sum + failures.length, 0);
  const skipped = all.flatMap((counts) => counts.skipped);
  const bad = failed + (allowSkips ? 0 : skipped.length);
  return {
    lines: [
      // Again, at the end: who reads a log reads its last lines.
      ...results.flatMap(describeFailures),
      "",
      ...results.flatMap(({ counts: { notes = [] } }) => notes),
      ...results.map(describeResult),
      ...skipped.map((name) => `skipped: ${name}`),
      `${passed} passed, ${bad} failed`,
    ],
    isGood: bad === 0 && passed > 0,
  };
}

/** What went wrong in it, a part for each failure. */
export function describeFailures({ name, counts }: Result): string[] {
  return counts.failures.flatMap((failure) => [
    `\nFAILED ${name}: ${failure.name}`,
    ...failure.lines.map((line) => `    ${line}`),
  ]);
}

/** Its counts and its time, in a line. */
export function describeResult({ name, counts, seconds }: Result): string {
  const { passed, failures, skipped } = counts;
  return `${
    name.padEnd(12)
  }${passed} passed, ${failures.length} failed, ${skipped.length} skipped (${
    Math.round(seconds)
  } s)`;
}
