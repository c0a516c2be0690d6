import assert from "node:assert/strict";
import { type Column, formatTable } from "./table.ts";

interface Row {
  readonly name: string;
  readonly size?: number;
}

const COLUMNS: readonly Column<Row>[] = [
  { header: "NAME", value: ({ name }) => name },
  { header: "SIZE", value: ({ size }) => size },
  { header: "NOTE", value: ({ name }) => `note on ${name}`, wide: true },
];

const ROWS: readonly Row[] = [{ name: "a", size: 0 }, { name: "longer" }];

Deno.test("formatTable() aligns columns and shows what is absent as a dash", () => {
  assert.equal(
    formatTable(COLUMNS, ROWS),
    "NAME     SIZE\na        0\nlonger   -\n",
  );
});

Deno.test("formatTable() shows wide columns on demand", () => {
  assert.equal(
    formatTable(COLUMNS, ROWS, { wide: true, headers: false }),
    "a        0   note on a\nlonger   -   note on longer\n",
  );
});

Deno.test("formatTable() without rows shows the headers", () => {
  assert.equal(formatTable(COLUMNS, []), "NAME   SIZE\n");
});

Deno.test("formatTable() lays out more rows than a call may have arguments", () => {
  const rows = Array.from({ length: 200_000 }, (_, i) => i);
  const columns = [{ header: "N", value: (row: number) => row }];
  assert.equal(formatTable(columns, rows).split("\n").length, 200_002);
});
