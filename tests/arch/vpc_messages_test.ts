// docs/vpc.md quotes why a pod gets no address of the VPC: each answer of the
// code is on the page, and what is on the page is an answer.
import assert from "node:assert/strict";
import { BlockTimeoutError, OutOfBlocksError } from "../../lib/ipam/mod.ts";
import {
  type FindingFacts,
  findingOf,
} from "../../roles/coild/vpc_report/findings.ts";
import { attemptOf, VIEW } from "../../roles/coild/vpc_report/testing.ts";
import { ROOT } from "./pages.ts";

const TIMEOUT = new BlockTimeoutError("vpc", 10_000);
const CALM: FindingFacts = {
  view: VIEW,
  troubles: { denied: [], throttled: [] },
  lastRefusal: undefined,
};
const unmet = (why: "limit" | "subnet" | "paused" | "fixed") => ({
  ...CALM,
  view: { ...VIEW, unmet: { addresses: 1, why } },
});
const { refusal } = attemptOf("CreateTags", "IncorrectState");

/** Each answer of {@linkcode findingOf}. */
const CASES: readonly (readonly [Error, FindingFacts])[] = [
  [new OutOfBlocksError("vpc", "2 rest, the first for 7 s more"), CALM],
  [TIMEOUT, unmet("limit")],
  [TIMEOUT, { ...CALM, view: { ...unmet("limit").view, isCordoned: true } }],
  [TIMEOUT, unmet("fixed")],
  [TIMEOUT, unmet("subnet")],
  [TIMEOUT, {
    ...CALM,
    troubles: { denied: ["ec2:CreateTags"], throttled: [], last: "denied" },
  }],
  [TIMEOUT, {
    ...CALM,
    troubles: { denied: [], throttled: ["CreateTags"], last: "throttled" },
  }],
  [TIMEOUT, {
    ...CALM,
    view: { ...VIEW, mode: "prefix", refused: ["prefix"] },
  }],
  [TIMEOUT, { ...CALM, lastRefusal: refusal }],
  [TIMEOUT, CALM],
];

/** Of the namespace's annotation, and at start: quoted_messages_test.ts looks for them in the sources. */
const ELSEWHERE = /^this node's pods have|^Cannot read the limits/;

const page = await Deno.readTextFile(`${ROOT}docs/vpc.md`);
const [, table = ""] = page.split("\n| symptom | cause |\n");
const ROWS = [...table.split("\n\n")[0]?.matchAll(/^\| `([^`]+)`/gm) ?? []]
  .map(([, row = ""]) => row);

function matches(row: string, text: string): boolean {
  const parts = row.split("…").map((part) => RegExp.escape(part));
  return new RegExp(parts.join(".*")).test(text);
}

Deno.test("vpc.md has each answer why a pod gets no address of the VPC, and no other", () => {
  const texts = CASES.flatMap(([error, facts]) => {
    const { text = "", event = text } = findingOf(error, facts) ?? {};
    return [text, event];
  });
  for (const text of texts) {
    assert.ok(ROWS.some((row) => matches(row, text)), text);
  }
  const quoted = ROWS.filter((row) => !ELSEWHERE.test(row));
  assert.ok(quoted.length > 6);
  for (const row of quoted) {
    assert.ok(texts.some((text) => matches(row, text)), row);
  }
});
