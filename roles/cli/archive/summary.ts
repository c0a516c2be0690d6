import { formatTable } from "../base/table.ts";

/** Something that is not in the archive. */
export interface Missing {
  readonly what: string;
  readonly why: string;
}

/** A file that is. */
export interface Included {
  readonly path: string;
  readonly chars: number;
}

/** Contents of an archive, and what it lacks. */
export interface Contents {
  /** Of the command that wrote it. */
  readonly version: string;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly isRedacted: boolean;
  readonly files: readonly Included[];
  readonly missing: readonly Missing[];
  /** Kinds of objects that the cluster does not have. */
  readonly notServed: readonly string[];
}

/** Named of those that lack for the same reason. */
const SHOWN = 20;

/** What to know before reading the rest. */
export function formatSummary(contents: Contents): string {
  const { version, startedAt, endedAt, isRedacted, files, missing } = contents;
  const { notServed } = contents;
  return [
    `coil sysdump by coil ${version}, ${startedAt.toISOString()} to ${endedAt.toISOString()}
${
      isRedacted
        ? "Names and addresses are replaced, consistently in all files."
        : "Names and addresses are those of the cluster."
    }
Secrets are not read. Environments, and what looks like a token, are left out.
${notServed.length === 0 ? "" : `Not installed: ${notServed.join(", ")}\n`}`,
    formatMissing(missing),
    formatTable([
      { header: "FILE", value: ({ path }) => path },
      { header: "CHARACTERS", value: ({ chars }) => chars },
    ], files),
  ].join("\n");
}

/** What lacks, by the reason. */
export function formatMissing(missing: readonly Missing[]): string {
  if (missing.length === 0) return "Nothing is missing\n";
  const lines = [`Missing: ${missing.length}\n`];
  for (const [why, all] of Map.groupBy(missing, ({ why }) => why)) {
    lines.push(`  ${why}\n`);
    for (const { what } of all.slice(0, SHOWN)) lines.push(`      ${what}\n`);
    const more = all.length - SHOWN;
    if (more > 0) lines.push(`      … and ${more} more\n`);
  }
  return lines.join("");
}
