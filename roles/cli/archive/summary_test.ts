import assert from "node:assert/strict";
import { formatMissing, formatSummary } from "./summary.ts";

const AT = new Date("2026-06-01T10:00:00Z");

Deno.test("formatSummary() names what is missing before what is there", () => {
  const summary = formatSummary({
    version: "1.2.3",
    startedAt: AT,
    endedAt: new Date(AT.getTime() + 5_000),
    isRedacted: true,
    files: [{ path: "status.txt", chars: 12 }],
    missing: [
      { what: "Node n2", why: "no coild runs there" },
      { what: "pods", why: "forbidden" },
      { what: "Node n3", why: "no coild runs there" },
    ],
    notServed: ["egresses"],
  });
  assert.equal(
    summary,
    `coil sysdump by coil 1.2.3, 2026-06-01T10:00:00.000Z to 2026-06-01T10:00:05.000Z
Names and addresses are replaced, consistently in all files.
Secrets are not read. Environments, and what looks like a token, are left out.
Not installed: egresses

Missing: 3
  no coild runs there
      Node n2
      Node n3
  forbidden
      pods

FILE         CHARACTERS
status.txt   12
`,
  );
});

Deno.test("formatMissing() names twenty for a reason, and counts the rest", () => {
  assert.equal(formatMissing([]), "Nothing is missing\n");
  const all = Array.from({ length: 25 }, (_, i) => ({
    what: `Node n${i}`,
    why: "away",
  }));
  const lines = formatMissing(all).split("\n");
  assert.deepEqual(lines.slice(0, 3), [
    "Missing: 25",
    "  away",
    "      Node n0",
  ]);
  assert.deepEqual(lines.slice(-3), [
    "      Node n19",
    "      … and 5 more",
    "",
  ]);
});
