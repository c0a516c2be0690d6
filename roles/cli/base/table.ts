/** One column of a table. */
export interface Column<Row> {
  readonly header: string;
  readonly value: (row: Row) => string | number | undefined;
  /** Shown with `-o wide` only. */
  readonly wide?: boolean;
}

/** Spaces between columns, as kubectl has them. */
const GAP = "   ";

/** Lays out rows as kubectl does. A missing value shows as "-". Ends with a newline. */
export function formatTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  options: { readonly wide?: boolean; readonly headers?: boolean } = {},
): string {
  const shown = columns.filter((column) => options.wide || !column.wide);
  const lines = rows.map((row) => shown.map(({ value }) => textOf(value(row))));
  if (options.headers ?? true) lines.unshift(shown.map((c) => c.header));
  const widths = shown.map((_, i) =>
    lines.reduce((width, line) => Math.max(width, line[i]?.length ?? 0), 0)
  );
  return lines.map((line) => {
    const cells = line.map((cell, i) => cell.padEnd(widths[i] ?? 0));
    return `${cells.join(GAP).trimEnd()}\n`;
  }).join("");
}

function textOf(value: string | number | undefined): string {
  const text = String(value ?? "");
  return text === "" ? "-" : text;
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const YEAR_MS = 365 * DAY_MS;

/**
 * Largest unit, a second unit below it, and up to which age both are shown,
 * or the first alone: HumanDuration of k8s.io/apimachinery/pkg/util/duration.
 */
const AGES: readonly {
  readonly below: number;
  readonly unit: readonly [number, string];
  readonly rest?: readonly [number, string];
}[] = [
  { below: 2 * MINUTE_MS, unit: [SECOND_MS, "s"] },
  { below: 10 * MINUTE_MS, unit: [MINUTE_MS, "m"], rest: [SECOND_MS, "s"] },
  { below: 3 * HOUR_MS, unit: [MINUTE_MS, "m"] },
  { below: 8 * HOUR_MS, unit: [HOUR_MS, "h"], rest: [MINUTE_MS, "m"] },
  { below: 2 * DAY_MS, unit: [HOUR_MS, "h"] },
  { below: 8 * DAY_MS, unit: [DAY_MS, "d"], rest: [HOUR_MS, "h"] },
  { below: 2 * YEAR_MS, unit: [DAY_MS, "d"] },
  { below: 8 * YEAR_MS, unit: [YEAR_MS, "y"], rest: [DAY_MS, "d"] },
  { below: Infinity, unit: [YEAR_MS, "y"] },
];

/** Formats the time since `since` (RFC 3339) as kubectl formats ages. */
export function formatAge(since: string | undefined, now: Date): string {
  const start = Date.parse(since ?? "");
  if (Number.isNaN(start)) return "-";
  const ms = Math.max(0, now.getTime() - start);
  const entry = AGES.find(({ below }) => ms < below);
  if (entry === undefined) return "-";
  const { unit: [size, letter], rest } = entry;
  const text = `${Math.floor(ms / size)}${letter}`;
  if (rest === undefined) return text;
  const more = Math.floor((ms % size) / rest[0]);
  return more === 0 ? text : `${text}${more}${rest[1]}`;
}
