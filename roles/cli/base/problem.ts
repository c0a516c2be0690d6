import type { Problem } from "../../../lib/ipam/audit/mod.ts";
import { count, type EnumFlag, EXIT } from "../../../lib/flags/mod.ts";
import { CONNECTION_FLAGS } from "./connection.ts";
import type { Unseen } from "./looker.ts";

/** Flag of commands whose output is for people, or all of it for programs. */
export const OUTPUT_FLAG: { readonly "output": EnumFlag<"text" | "json"> } = {
  "output": {
    type: "enum",
    default: "text",
    values: ["text", "json"],
    short: "o",
    help: "Output format",
  },
};

/** Flags of commands that look for problems. */
export const PROBLEM_FLAGS: typeof OUTPUT_FLAG & typeof CONNECTION_FLAGS = {
  ...OUTPUT_FLAG,
  ...CONNECTION_FLAGS,
};

/** The exit codes of such a command, for its help. */
export const PROBLEM_EXIT_CODES =
  `Exit codes: 0 no problems, 1 not everything could be read, 2 usage error, 3 problems
found.`;

/** A report in the format that was asked for. */
export function formatReportAs(
  output: "text" | "json",
  report: object,
  text: () => string,
): string {
  return output === "json" ? `${JSON.stringify(report, null, 2)}\n` : text();
}

/** Problems shown of one kind of object; with `-o json` all are. */
const SHOWN_OF_A_KIND = 10;

/** A text of a node, which may be hostile, for a terminal: without what moves its cursor or colours it. */
export function plainText(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, " ");
}

/** The problems as text, each with its next step, after what could not be read; where that is not all, with what was. */
export function formatProblems(
  problems: readonly Problem[],
  unseen: readonly Unseen[],
  { seen }: {
    /** Plurals of the objects that were read; by default it is not said which. */
    readonly seen?: readonly string[] | undefined;
  } = {},
): string {
  const lines = unseen.map(({ what, why, detail }) =>
    why === "unknown"
      ? `UNKNOWN: ${what} (${plainText(detail ?? "")})\n`
      : `Not looked at: ${what} (${why})\n`
  );
  const isAll = lines.length === 0;
  if (!isAll) lines.push("\n");
  if (problems.length === 0) {
    const where = seen?.join(", ") ?? "the rest";
    if (isAll) lines.push("No problems found\n");
    else if (where === "") lines.push("Nothing was looked at\n");
    else lines.push(`No problems found in ${where}\n`);
    return lines.join("");
  }
  lines.push(`${count(problems.length, "problem")}:\n`);
  const byKind = Map.groupBy(problems, ({ object }) => object.split(" ")[0]);
  for (const [kind, all] of byKind) {
    for (const { object, message, next } of all.slice(0, SHOWN_OF_A_KIND)) {
      lines.push(`  ${object}: ${plainText(message)}\n      ${next}\n`);
    }
    const more = all.length - SHOWN_OF_A_KIND;
    if (more > 0) lines.push(`  … and ${more} more of kind ${kind}: -o json\n`);
  }
  return lines.join("");
}

/** What is not served has its own problem, if it is one; what is forbidden or unknown may hide some. */
export function exitCodeOf(
  { problems, unseen }: {
    readonly problems: readonly Problem[];
    readonly unseen: readonly Unseen[];
  },
): number {
  if (problems.length > 0) return EXIT.problems;
  return unseen.some(({ why }) => why !== "not served") ? EXIT.failed : EXIT.ok;
}
