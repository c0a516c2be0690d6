import type { Terminal } from "../../../lib/command/mod.ts";
import type { BoolFlag, EnumFlag } from "../../../lib/flags/mod.ts";
import { type Column, formatTable } from "./table.ts";

/** Flags of commands that show tables. */
export const TABLE_FLAGS: {
  readonly "output": EnumFlag<"table" | "wide" | "json">;
  readonly "no-headers": BoolFlag;
} = {
  "output": {
    type: "enum",
    default: "table",
    values: ["table", "wide", "json"],
    short: "o",
    help: "Output format",
  },
  "no-headers": {
    type: "bool",
    help: "Omit the header line",
  },
};

/** How a table is written. */
export interface TableOutput {
  readonly output: "table" | "wide" | "json";
  readonly headers: boolean;
  readonly terminal: Terminal;
}

/** Writes rows as a table, or under their subject's name as JSON. */
export function writeRows<Row>(
  subject: string,
  rows: readonly Row[],
  { columns, output, headers, terminal }: TableOutput & {
    readonly columns: (now: Date) => readonly Column<Row>[];
  },
): void {
  if (output === "json") {
    terminal.out(`${JSON.stringify({ [subject]: rows }, null, 2)}\n`);
    return;
  }
  if (rows.length === 0) {
    terminal.err(`No ${subject} found\n`);
    return;
  }
  const wide = output === "wide";
  terminal.out(formatTable(columns(terminal.now()), rows, { wide, headers }));
}
