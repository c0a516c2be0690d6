import assert from "node:assert/strict";
import { type Column, formatAge, formatTable } from "./table.ts";

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

const NOW = new Date("2026-06-01T00:00:00Z");

for (
  const [seconds, text] of [
    [-5, "0s"],
    [0, "0s"],
    [119, "119s"],
    [120, "2m"],
    [125, "2m5s"],
    [600, "10m"],
    [3600 * 3 - 1, "179m"],
    [3600 * 3, "3h"],
    [3600 * 7 + 60 * 5, "7h5m"],
    [3600 * 47, "47h"],
    [3600 * 48, "2d"],
    [3600 * 24 * 3 + 3600 * 4, "3d4h"],
    [3600 * 24 * 9 + 3600 * 4, "9d"],
    [3600 * 24 * 365 * 2 + 3600 * 24 * 3, "2y3d"],
    [3600 * 24 * 365 * 9, "9y"],
  ] as const
) {
  Deno.test(`formatAge() of ${seconds} s is ${text}`, () => {
    const since = new Date(NOW.getTime() - seconds * 1000).toISOString();
    assert.equal(formatAge(since, NOW), text);
  });
}

Deno.test("formatAge() without a time is a dash", () => {
  assert.equal(formatAge(undefined, NOW), "-");
});

Deno.test("formatTable() lays out more rows than a call may have arguments", () => {
  const rows = Array.from({ length: 200_000 }, (_, i) => i);
  const columns = [{ header: "N", value: (row: number) => row }];
  assert.equal(formatTable(columns, rows).split("\n").length, 200_002);
});
