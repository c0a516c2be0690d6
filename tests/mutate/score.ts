import type { Mutant } from "./operators.ts";
import type { Outcome } from "./trial.ts";

/** A mutant and what became of it. */
export interface Trial {
  readonly mutant: Mutant;
  /** The text that it replaces. */
  readonly from: string;
  readonly outcome: Outcome;
}

/** What tests noticed of all mutants that compile, as a line: "38 of 40 noticed (95 %): 37 killed, 1 timed out, 2 survived". */
export function describeScore(outcomes: readonly Outcome[]): string {
  const count = (which: Outcome) =>
    outcomes.filter((outcome) => outcome === which).length;
  const noticed = count("killed") + count("timed out");
  const all = noticed + count("survived");
  const percent = all === 0 ? 100 : Math.floor(100 * noticed / all);
  const counts = `${count("killed")} killed, ${count("timed out")} timed out`;
  const invalid = count("invalid");
  return `${noticed} of ${all} noticed (${percent} %): ${counts}, ` +
    `${count("survived")} survived` +
    (invalid === 0 ? "" : `; ${invalid} more do not compile`);
}

/** Where a mutant is and what it changes, as a line. */
export function describeTrial({ mutant, from, outcome }: Trial): string {
  const { file, line, to } = mutant;
  return `${outcome.padEnd(9)} ${file}:${line}  ${short(from)}  ->  ${
    short(to)
  }`;
}

function short(text: string): string {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length <= 70 ? line : `${line.slice(0, 67)}...`;
}
