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
