import type { Problem } from "../../../lib/ipam/audit/mod.ts";
import assert from "node:assert/strict";
import type { Unseen } from "./looker.ts";
import { exitCodeOf, formatProblems } from "./problem.ts";

const PROBLEM: Problem = {
  object: "Pod apps/web",
  message: "it is broken",
  next: "kubectl describe",
};
const FORBIDDEN: Unseen = { what: "pods", why: "forbidden" };
const NOT_SERVED: Unseen = { what: "egresses", why: "not served" };
const UNKNOWN: Unseen = {
  what: "Node n1",
  why: "unknown",
  detail: "no coild runs there",
};

Deno.test("exitCodeOf() takes nothing unknown or forbidden for well", () => {
  for (
    const [problems, unseen, code] of [
      [[], [], 0],
      [[], [NOT_SERVED], 0],
      [[], [FORBIDDEN], 1],
      [[], [NOT_SERVED, UNKNOWN], 1],
      [[PROBLEM], [UNKNOWN], 3],
    ] as const
  ) {
    assert.equal(exitCodeOf({ problems, unseen }), code);
  }
});

Deno.test("formatProblems() begins with what is not known", () => {
  assert.equal(
    formatProblems([PROBLEM], [FORBIDDEN, UNKNOWN]),
    `Not looked at: pods (forbidden)
UNKNOWN: Node n1 (no coild runs there)

1 problem:
  Pod apps/web: it is broken
      kubectl describe
`,
  );
});

Deno.test("formatProblems() does not say of what is not known that it is well", () => {
  assert.equal(formatProblems([], []), "No problems found\n");
  assert.equal(
    formatProblems([], [UNKNOWN]),
    `UNKNOWN: Node n1 (no coild runs there)

No problems found in the rest
`,
  );
  const pods = { what: "pods", why: "forbidden" } as const;
  const without = (...seen: readonly string[]) =>
    formatProblems([], [pods], { seen });
  assert.equal(
    without("nodes", "leases"),
    "Not looked at: pods (forbidden)\n\nNo problems found in nodes, leases\n",
  );
  assert.equal(
    without(),
    "Not looked at: pods (forbidden)\n\nNothing was looked at\n",
  );
  const whole = formatProblems([], [], { seen: ["nodes"] });
  assert.equal(whole, "No problems found\n");
});

Deno.test("formatProblems() shows a node's words without what a terminal would obey", () => {
  const text = formatProblems(
    [{ ...PROBLEM, message: "bad\u001b[2J\u0007 news" }],
    [{ ...UNKNOWN, detail: "gone\u009b1A\rwell" }],
  );
  assert.match(text, /bad \[2J {2}news/);
  assert.match(text, /\(gone 1A well\)/);
});

Deno.test("formatProblems() shows ten problems of a kind, and says how many more there are", () => {
  const all = Array.from({ length: 12 }, () => PROBLEM);
  const text = formatProblems(all, []);
  assert.equal(text.split("it is broken").length - 1, 10);
  assert.match(text, /^12 problems:\n[^]*and 2 more of kind Pod: -o json\n$/);
});
