import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import {
  type Action,
  type Call,
  isOpen,
  isSettled,
  type Outcome,
  SETTLE_MS,
  withAnswers,
} from "./calls.ts";
import type { Ec2Eni } from "./eni.ts";

const ONE = Prefix.parse("10.0.96.20/32");
const TWO = Prefix.parse("10.0.96.21/32");
const ATTACHMENT = {
  id: "attach-1",
  device: 1,
  state: "attached",
  since: 0,
  endsWithInstance: false,
} as const;
const ENI: Ec2Eni = {
  id: "eni-1",
  subnet: "subnet-1",
  ownership: "owned",
  address: Address.parse("10.0.96.9"),
  attachment: ATTACHMENT,
  blocks: [ONE],
};
const LOOSE: Ec2Eni = { ...ENI, attachment: undefined };
const DONE: Outcome = { kind: "done" };

function ended(action: Action, outcome: Outcome, at = 0): Call {
  return { action, ended: { at, outcome } };
}

/** What is believed of the list right after the answers. */
function believed(
  list: readonly Ec2Eni[],
  ...calls: readonly Call[]
): Ec2Eni[] {
  return withAnswers(list, calls, 1);
}

const ASSIGN: Action = {
  kind: "assign",
  eni: "eni-1",
  subnet: "subnet-1",
  what: "address",
  count: 1,
};
const UNASSIGN: Action = { kind: "unassign", eni: "eni-1", blocks: [ONE] };
const ATTACH: Action = { kind: "attach", eni: "eni-1", device: 3 };
const DETACH: Action = { kind: "detach", eni: "eni-1", attachment: "attach-1" };
const DELETE: Action = { kind: "delete", eni: "eni-1" };
const CREATE: Action = {
  kind: "create",
  subnet: "subnet-1",
  what: "address",
  count: 1,
};

Deno.test("withAnswers() adds what was created and assigned, until the list must show it", () => {
  const created = ended(CREATE, { kind: "done", eni: LOOSE });
  assert.deepEqual(believed([], created), [LOOSE]);
  const assigned = ended(ASSIGN, { kind: "done", blocks: [TWO] });
  assert.deepEqual(
    believed([], created, assigned)[0]?.blocks.map(String),
    ["10.0.96.20/32", "10.0.96.21/32"],
  );
  assert.deepEqual(withAnswers([], [created], SETTLE_MS), []);
});

Deno.test("withAnswers() believes a newer list of an ENI that was created", () => {
  const created = ended(CREATE, { kind: "done", eni: LOOSE });
  assert.deepEqual(believed([ENI], created), [ENI]);
});

Deno.test("withAnswers() takes away what was given back", () => {
  assert.deepEqual(believed([ENI], ended(UNASSIGN, DONE))[0]?.blocks, []);
  assert.deepEqual(believed([LOOSE], ended(DELETE, DONE)), []);
  assert.equal(
    believed([ENI], ended(DETACH, DONE))[0]?.attachment?.state,
    "detaching",
  );
});

Deno.test("withAnswers() shows an ENI as attaching until the list has its attachment", () => {
  const attached = ended(ATTACH, {
    kind: "done",
    attachment: { id: "attach-2", since: 7 },
  });
  const expected = {
    id: "attach-2",
    device: 3,
    state: "attaching",
    since: 7,
    endsWithInstance: false,
  };
  assert.deepEqual(believed([LOOSE], attached)[0]?.attachment, expected);
  // The list still has the attachment of before.
  const again = [ended(DETACH, DONE), attached];
  assert.deepEqual(believed([ENI], ...again)[0]?.attachment, expected);
  const shown = { ...ENI, attachment: { ...ATTACHMENT, id: "attach-2" } };
  assert.deepEqual(believed([shown], ...again), [shown]);
});

Deno.test("withAnswers() notes the /80, and that the ENI ends with its instance", () => {
  const prefix = Prefix.parse("2001:db8:0:1:2::/80");
  const assigned = ended({ ...ASSIGN, what: "ipv6" }, {
    kind: "done",
    blocks: [prefix],
  });
  assert.equal(believed([ENI], assigned)[0]?.ipv6, prefix);
  assert.deepEqual(believed([ENI], assigned)[0]?.blocks, [ONE]);
  const marked = ended(
    { kind: "endWithInstance", eni: "eni-1", attachment: "attach-1" },
    DONE,
  );
  assert.equal(believed([ENI], marked)[0]?.attachment?.endsWithInstance, true);
});

Deno.test("withAnswers() believes no call that failed, or is under way", () => {
  for (
    const call of [
      { action: DELETE },
      ended(DELETE, { kind: "unknown" }),
      ended(DELETE, { kind: "refused", why: "other" }),
    ]
  ) {
    assert.deepEqual(believed([LOOSE], call), [LOOSE]);
  }
});

Deno.test("isOpen() is a call whose end is unknown, until the list must show what it did", () => {
  const unknown = ended(DELETE, { kind: "unknown" });
  const refused = ended(DELETE, { kind: "refused", why: "limit" });
  assert.ok(isOpen({ action: DELETE }, 1e9));
  assert.ok(isOpen(unknown, SETTLE_MS - 1));
  assert.ok(!isOpen(unknown, SETTLE_MS));
  assert.ok(!isOpen(refused, 0));
  assert.ok(!isOpen(ended(DELETE, DONE), 0));
  assert.ok(!isSettled({ action: DELETE }, 1e9));
  assert.ok(!isSettled(ended(DELETE, DONE), SETTLE_MS - 1));
  assert.ok(isSettled(ended(DELETE, DONE), SETTLE_MS));
  assert.ok(isSettled(refused, 0));
});
