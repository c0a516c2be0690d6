import assert from "node:assert/strict";
import { FakeClock, untilStopped } from "../../async/testing.ts";
import { loggedLines } from "../../telemetry/testing.ts";
import { type AuditOptions, findingsText, runAudits } from "./auditor.ts";
import type { AnyFinding } from "./look_twice.ts";

const finding = (object: string, message = "it leaks"): AnyFinding => ({
  object,
  message,
  next: "look",
  code: "leak",
});

/** Audits every minute or so; `looks` says what each look finds, or why it fails. */
async function auditing(
  test: (lab: {
    readonly clock: FakeClock;
    looks: (readonly AnyFinding[] | Error)[];
    /** Of each audit. */
    readonly reported: (readonly string[] | undefined)[];
  }) => Promise<void>,
): Promise<void> {
  const clock = new FakeClock();
  const lab = {
    clock,
    looks: [] as (readonly AnyFinding[] | Error)[],
    reported: [] as (readonly string[] | undefined)[],
  };
  const options: AuditOptions<AnyFinding> = {
    look: () => {
      const found = lab.looks.shift() ?? [];
      return found instanceof Error
        ? Promise.reject(found)
        : Promise.resolve(found);
    },
    onFindings: (findings) =>
      void lab.reported.push(findings?.map(({ object }) => object)),
    intervalMs: 600_000,
    clock,
  };
  const stop = new AbortController();
  const running = untilStopped(runAudits(options, stop.signal), stop.signal);
  await test(lab);
  stop.abort();
  await running;
}

const LONGEST_MS = 900_000;

Deno.test("runAudits() reports what both looks of an audit have, and nothing that was there at one moment only", async () => {
  await auditing(async (lab) => {
    lab.looks = [
      [finding("a"), finding("b")],
      [finding("b"), finding("c")],
    ];
    await lab.clock.advance(60_000);
    assert.deepEqual(lab.reported, [["b"]]);
    lab.looks = [[], []];
    await lab.clock.advance(239_000);
    assert.equal(lab.looks.length, 2, "not before half of the interval");
    await lab.clock.advance(LONGEST_MS);
    assert.ok(lab.looks.length < 2);
  });
});

Deno.test("runAudits() looks once where all is well, and again in the next interval", async () => {
  await auditing(async (lab) => {
    lab.looks = [[], [finding("a")], [finding("a")]];
    while (lab.reported.length < 2) await lab.clock.advance(1_000);
    assert.deepEqual(lab.reported, [[], ["a"]]);
  });
});

Deno.test("runAudits() says that nothing is known where it could not look, in either look, and goes on", async () => {
  await auditing(async (lab) => {
    lab.looks = [
      new Error("first"),
      [finding("a")],
      new Error("second"),
      [finding("a")],
      [finding("a")],
    ];
    while (lab.reported.length < 3) await lab.clock.advance(1_000);
    assert.deepEqual(lab.reported, [undefined, undefined, ["a"]]);
  });
});

Deno.test("runAudits() logs a finding once as long as it lasts, though its message changes", async () => {
  const lines = loggedLines();
  await auditing(async (lab) => {
    for (const age of ["5m", "15m", "25m"]) {
      const old = finding("a", `it leaks for ${age}`);
      const found = age === "25m" ? [old, finding("b")] : [old];
      lab.looks = [found, found];
      const { length } = lab.reported;
      while (lab.reported.length === length) await lab.clock.advance(1_000);
    }
  });
  assert.deepEqual(
    lines.map((line) => {
      const { findings, detail } = JSON.parse(line);
      return [findings, detail];
    }),
    [[1, "a: it leaks for 5m"], [2, "b: it leaks"]],
  );
});

Deno.test("findingsText() shows three findings, and how many more there are", () => {
  assert.equal(
    findingsText([finding("a"), finding("b")]),
    "a: it leaks; b: it leaks",
  );
  const many = ["a", "b", "c", "d", "e"].map((object) => finding(object));
  assert.match(findingsText(many), /^a: [^d]*; and 2 more$/);
});
