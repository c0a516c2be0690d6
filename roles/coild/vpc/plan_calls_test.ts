import assert from "node:assert/strict";
import { FakeClock, settle } from "../../../lib/async/testing.ts";
import type { Action, EniOutcome } from "../../../lib/vpc/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import type { NodeAccount } from "../cloud/account.ts";
import { CloudView } from "../cloud/view.ts";
import { PlanCalls } from "./plan_calls.ts";

const { signal } = new AbortController();
const DELETE: Action = { kind: "delete", eni: "eni-1" };
const ATTACH: Action = { kind: "attach", eni: "eni-2", device: 1 };
const DONE: EniOutcome = { kind: "done" };
const REFUSED: EniOutcome = { kind: "refused", why: "other" };

type Sent = Parameters<NodeAccount["perform"]>[1];

/** Calls whose answers a test gives. */
class Site {
  readonly said: string[] = [];
  readonly sent: Sent[] = [];
  readonly clock = new FakeClock();
  readonly view = new CloudView(() => [], { families: ["ipv4"] });
  readonly calls: PlanCalls;
  readonly #answers: ((outcome: EniOutcome) => void)[] = [];

  constructor() {
    const account = {
      perform: (_action, options) => {
        this.sent.push(options);
        return new Promise((resolve) => this.#answers.push(resolve));
      },
    } as Partial<NodeAccount> as NodeAccount; // all that is used
    const { clock, view } = this;
    this.calls = new PlanCalls({
      account,
      view,
      clock,
      onBegin: ({ kind }) => this.said.push(`${kind} begins`),
      onEnd: ({ kind }, outcome) => {
        const left = view.calls.filter(({ ended }) => ended === undefined);
        this.said.push(`${kind} ${outcome.kind}, ${left.length} open`);
      },
    });
  }

  begin(action: Action): void {
    this.calls.begin(action, { signal });
  }

  /** Answers the oldest call. */
  async answer(outcome: EniOutcome): Promise<void> {
    this.#answers.shift()?.(outcome);
    await settle();
  }
}

Deno.test("PlanCalls shows calls under way and how they ended, and says both", async () => {
  loggedLines();
  const site = new Site();
  site.begin(DELETE);
  site.begin(ATTACH);
  assert.deepEqual(site.view.calls, [{ action: DELETE }, { action: ATTACH }]);
  await site.clock.advance(7);
  await site.answer(DONE);
  const ended = { at: 7, outcome: DONE };
  assert.deepEqual(site.view.calls, [
    { action: DELETE, ended },
    { action: ATTACH },
  ]);
  await site.answer({ kind: "unknown" });
  assert.deepEqual(site.said, [
    "delete begins",
    "attach begins",
    "delete done, 1 open",
    "attach unknown, 0 open",
  ]);
});

Deno.test("PlanCalls sends a call by the plan's signal, for the primary ENI's security groups", () => {
  loggedLines();
  const site = new Site();
  site.begin(DELETE);
  const [sent] = site.sent;
  assert.equal(sent?.signal, signal);
  assert.deepEqual(sent?.groups, site.view.groups);
});

Deno.test("PlanCalls learns from each call that ends", async () => {
  loggedLines();
  const site = new Site();
  site.begin(DELETE);
  await site.answer(REFUSED);
  assert.deepEqual([...site.calls.pace.keys()], ["eni-1"]);
  site.begin(ATTACH);
  await site.answer(REFUSED);
  assert.deepEqual([...site.calls.pace.keys()], ["eni-1", "attach"]);
  site.begin(DELETE);
  await site.answer(DONE);
  assert.deepEqual([...site.calls.pace.keys()], ["attach"]);
});

Deno.test("PlanCalls keeps EC2's last refusal until a call succeeds", async () => {
  loggedLines();
  const site = new Site();
  assert.equal(site.calls.lastRefusal, undefined);
  const refusal = new Error("not authorized");
  site.begin(DELETE);
  site.sent[0]?.onError(refusal);
  await site.answer(REFUSED);
  assert.equal(site.calls.lastRefusal, refusal);
  site.begin(DELETE);
  await site.answer({ kind: "unknown" });
  assert.equal(site.calls.lastRefusal, refusal);
  site.begin(DELETE);
  await site.answer(DONE);
  assert.equal(site.calls.lastRefusal, undefined);
});

Deno.test("PlanCalls waits at the end for calls that were sent", async () => {
  loggedLines();
  const site = new Site();
  await site.calls.finish();
  site.begin(DELETE);
  site.begin(ATTACH);
  let isOver = false;
  const finished = site.calls.finish().then(() => isOver = true);
  await site.answer(DONE);
  assert.equal(isOver, false);
  await site.answer(REFUSED);
  await finished;
  const lines = loggedLines();
  await site.calls.finish();
  assert.deepEqual(lines, [], "none is left");
});
