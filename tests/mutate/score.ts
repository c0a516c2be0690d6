import type { Mutant } from "./operators.ts";
import type { Outcome } from "./trial.ts";

/** In the order in which the score names them. */
const COUNTED: readonly Outcome[] = [
  "killed",
  "timed out",
  "explained",
  "survived",
];

/** A mutant and what became of it. */
export interface Trial {
  readonly mutant: Mutant;
  /** The text that it replaces. */
  readonly from: string;
  readonly outcome: Outcome;
  /** The file of the test that noticed it. */
  readonly by?: string | undefined;
}

/** What tests noticed of all mutants that compile, as a line: "38 of 40 noticed or explained (95 %): 36 killed, 1 timed out, 1 explained, 2 survived". */
export function describeScore(outcomes: readonly Outcome[]): string {
  const counts = COUNTED.map((which) => ({
    which,
    count: outcomes.filter((outcome) => outcome === which).length,
  }));
  const survived = counts.at(-1)?.count ?? 0;
  const all = counts.reduce((sum, { count }) => sum + count, 0);
  const good = all - survived;
  const percent = all === 0 ? 100 : Math.floor(100 * good / all);
  const invalid = outcomes.length - all;
  return `${good} of ${all} noticed or explained (${percent} %): ` +
    counts.map(({ which, count }) => `${count} ${which}`).join(", ") +
    (invalid === 0 ? "" : `; ${invalid} more do not compile`);
}

/** Where a mutant is, what it changes, and who noticed, as a line. */
export function describeTrial({ mutant, from, outcome, by }: Trial): string {
  const { file, line, to } = mutant;
  const change = `${short(from)}  ->  ${short(to)}`;
  return `${outcome.padEnd(9)} ${file}:${line}  ${change}` +
    (by === undefined ? "" : `  (${by})`);
}

function short(text: string): string {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length <= 70 ? line : `${line.slice(0, 67)}...`;
}
