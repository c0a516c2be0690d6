import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import {
  type Action,
  type EniCall,
  type EniOutcome,
  isBehind,
  isOpen,
  isSettled,
  SETTLE_MS,
  unforgotten,
  withAnswers,
} from "./calls.ts";
import type { Ec2Eni, ImdsEni } from "./eni.ts";

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
const DONE: EniOutcome = { kind: "done" };

function ended(action: Action, outcome: EniOutcome, at = 0): EniCall {
  return { action, ended: { at, outcome } };
}

/** What is believed of the list right after the answers. */
function believed(
  list: readonly Ec2Eni[],
  ...calls: readonly EniCall[]
): Ec2Eni[] {
  return withAnswers(list, calls);
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

Deno.test("withAnswers() adds what was created and assigned", () => {
  const created = ended(CREATE, { kind: "done", eni: LOOSE });
  assert.deepEqual(believed([], created), [LOOSE]);
  const assigned = ended(ASSIGN, { kind: "done", blocks: [TWO] });
  assert.deepEqual(
    believed([], created, assigned)[0]?.blocks.map(String),
    ["10.0.96.20/32", "10.0.96.21/32"],
  );
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

const SHOWN: ImdsEni = { id: "eni-1", device: 1, blocks: [ONE] };
const MARK: Action = {
  kind: "endWithInstance",
  eni: "eni-1",
  attachment: "attach-1",
};
const MARKED: Ec2Eni = {
  ...ENI,
  attachment: { ...ATTACHMENT, endsWithInstance: true },
};
const LATE_MS = 300_000;
const UNSEEN_MS = 120_000;

/** A call that was answered, EC2's list and the metadata before it, and both after it. */
const CHANGES: readonly (readonly [
  EniCall,
  readonly [readonly Ec2Eni[], readonly ImdsEni[]],
  readonly [readonly Ec2Eni[], readonly ImdsEni[]],
])[] = [
  [
    ended(CREATE, { kind: "done", eni: LOOSE }),
    [[], []],
    [[ENI], [SHOWN]],
  ],
  [
    ended(ATTACH, { kind: "done", attachment: { id: "attach-1", since: 0 } }),
    [[LOOSE], []],
    [[ENI], [SHOWN]],
  ],
  [
    ended(ASSIGN, { kind: "done", blocks: [TWO] }),
    [[ENI], [SHOWN]],
    [[{ ...ENI, blocks: [ONE, TWO] }], [{ ...SHOWN, blocks: [ONE, TWO] }]],
  ],
  [
    ended(UNASSIGN, DONE),
    [[ENI], [SHOWN]],
    [[{ ...ENI, blocks: [] }], [{ ...SHOWN, blocks: [] }]],
  ],
  [ended(DETACH, DONE), [[ENI], [SHOWN]], [[LOOSE], []]],
  [ended(MARK, DONE), [[ENI], []], [[MARKED], [SHOWN]]],
];

function isLeft(
  call: EniCall,
  imds: readonly ImdsEni[],
  lookedAt: number,
): boolean {
  return unforgotten([call], { imds, lookedAt }).length > 0;
}

for (const [call, [ec2, imds], [ec2After, imdsAfter]] of CHANGES) {
  const { kind } = call.action;
  Deno.test(`unforgotten() counts on an answer to ${kind} for as long as EC2's lists may be behind`, () => {
    assert.ok(isLeft(call, imdsAfter, SETTLE_MS));
    assert.ok(isLeft(call, imdsAfter, LATE_MS - 1), "five minutes");
    assert.ok(!isLeft(call, imdsAfter, LATE_MS));
    assert.ok(isLeft(call, imds, UNSEEN_MS - 1), "two, when neither shows it");
    assert.ok(!isLeft(call, imds, UNSEEN_MS));
    const [noted] = unforgotten([call], { imds: imdsAfter, lookedAt: 1 });
    assert.ok(noted);
    assert.ok(isLeft(noted, imds, SETTLE_MS - 1));
    assert.ok(!isLeft(noted, imds, SETTLE_MS), "undone by others");
  });

  Deno.test(`isBehind() is a list that should show ${kind}, and does not`, () => {
    const is = (list: readonly Ec2Eni[], lookedAt: number) =>
      isBehind(list, { calls: [call], lookedAt });
    assert.ok(!is(ec2, SETTLE_MS - 1));
    assert.ok(is(ec2, SETTLE_MS));
    assert.ok(!is(ec2After, SETTLE_MS));
  });
}

Deno.test("withAnswers() keeps what EC2 has given again", () => {
  const calls = [
    ended(UNASSIGN, DONE),
    ended(ASSIGN, { kind: "done", blocks: [ONE] }, 3_000),
  ];
  const imds = [{ ...SHOWN, blocks: [] }];
  const left = unforgotten(calls, { imds, lookedAt: UNSEEN_MS });
  assert.deepEqual(left.map(({ action: { kind } }) => kind), [
    "unassign",
    "assign",
  ]);
  assert.deepEqual(withAnswers([ENI], left)[0]?.blocks, [ONE]);
});

Deno.test("withAnswers() takes no attachment back that came after the answer", () => {
  const attached = ended(ATTACH, {
    kind: "done",
    attachment: { id: "attach-0", since: 7 },
  });
  const later = { ...ENI, attachment: { ...ATTACHMENT, since: 8 } };
  assert.deepEqual(believed([later], attached), [later]);
});

Deno.test("unforgotten() keeps calls under way, and forgets what was refused or has had no answer for long", () => {
  const unknown = ended(ASSIGN, { kind: "unknown" });
  assert.ok(isLeft({ action: ASSIGN }, [SHOWN], 1e9));
  const refused = ended(ASSIGN, { kind: "refused", why: "other" });
  assert.ok(!isLeft(refused, [SHOWN], 0));
  assert.ok(isLeft(unknown, [SHOWN], SETTLE_MS - 1));
  assert.ok(!isLeft(unknown, [SHOWN], SETTLE_MS));
  assert.ok(!isBehind([ENI], { calls: [{ action: ASSIGN }], lookedAt: 1e9 }));
});
