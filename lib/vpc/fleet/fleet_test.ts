/** Single looks at a node with a primary ENI (device 0) and one that coild made (device 1). */
import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import { targetsOf } from "../testing.ts";
import type { Action, EniCall, EniOutcome } from "./calls.ts";
import {
  type Ec2Eni,
  type EniAttachment,
  type ImdsEni,
  mergeEnis,
  type Ownership,
} from "./eni.ts";
import {
  type BlockUse,
  countsOf,
  doubtfulBlocks,
  membersOf,
  type Situation,
  stateOf,
} from "./fleet.ts";
import { plan } from "./plan.ts";

const NOW = 1_000_000;
const PREFIX6 = Prefix.parse("2001:db8:0:1:2::/80");

interface Look {
  readonly ownership?: Ownership;
  readonly attachment?: Partial<EniAttachment>;
  readonly blocks?: readonly string[];
  readonly ipv6?: boolean;
  readonly imds?: boolean;
}

function eniOf(device: number, look: Look): Ec2Eni {
  return {
    id: `eni-${device}`,
    subnet: "subnet-1",
    ownership: look.ownership ?? (device === 0 ? "primary" : "owned"),
    address: Address.parse(`10.0.96.${10 + device}`),
    attachment: {
      id: `attach-${device}`,
      device,
      state: "attached",
      since: 0,
      endsWithInstance: true,
      ...look.attachment,
    },
    blocks: (look.blocks ?? []).map((text) => Prefix.parse(text)),
    ipv6: look.ipv6 === true ? PREFIX6 : undefined,
  };
}

/** What is seen of ENIs by their devices, and how their blocks are used. */
function situationOf(
  looks: readonly Look[],
  uses: Readonly<Record<string, Partial<BlockUse>>> = {},
  more: Partial<Situation> = {},
): Situation {
  const ec2 = looks.map((look, device) => eniOf(device, look));
  const imds = ec2.filter((_, i) => looks[i]?.imds !== false)
    .map(({ id, blocks, ipv6 }, device): ImdsEni => ({
      id,
      device,
      blocks,
      ipv6,
    }));
  return {
    now: NOW,
    startedAt: 0,
    enis: mergeEnis(ec2, imds),
    lookedAt: NOW,
    uses: new Map(
      Object.entries(uses).map(([text, use]) => [text, {
        block: Prefix.parse(text),
        used: 0,
        cooling: 0,
        emptySince: 0,
        retired: false,
        ...use,
      }]),
    ),
    waiting: 0,
    limits: { enis: 3, addressesPerEni: 4, prefixes: true },
    targets: targetsOf({ warmIps: 1 }),
    subnet: "subnet-1",
    ipv4: true,
    ipv6: false,
    calls: [],
    pace: new Map(),
    returnDelayMs: 30_000,
    attaches: true,
    ...more,
  };
}

const A = "10.0.96.20/32";
const B = "10.0.96.21/32";
const C = "10.0.96.22/32";

function done(situation: Situation): string[] {
  const { actions, retire } = plan(situation);
  return [
    ...actions.map((action) =>
      action.kind === "create"
        ? `create ${action.count} ${action.what}`
        : `${action.kind} ${action.eni}`
    ),
    ...retire.map((block) => `retire ${block}`),
  ];
}

const TWO: readonly Look[] = [{ blocks: [A] }, { blocks: [B, C] }];

Deno.test("plan() retires an unused ENI, and detaches it when its blocks are retired", () => {
  const unused = { [A]: {}, [B]: {}, [C]: {} };
  assert.deepEqual(done(situationOf(TWO, unused)), [
    `retire ${B}`,
    `retire ${C}`,
  ]);
  const retired = { [A]: {}, [B]: { retired: true }, [C]: { retired: true } };
  assert.deepEqual(done(situationOf(TWO, retired)), ["detach eni-1"]);
});

Deno.test("plan() retires no block with an address in use, or one that rests, or that was used lately", () => {
  for (
    const use of [
      { used: 1 },
      { cooling: 1 },
      { emptySince: NOW - 29_999 },
      { emptySince: undefined },
    ]
  ) {
    const retired = done(situationOf(TWO, { [A]: {}, [B]: {}, [C]: use }));
    assert.ok(retired.includes(`retire ${B}`));
    assert.ok(!retired.includes(`retire ${C}`));
  }
});

Deno.test("plan() retires nothing while a call adds something, needed or not", () => {
  const action = {
    kind: "create",
    subnet: "subnet-1",
    what: "address",
    count: 1,
  } as const;
  const unused = { [A]: {}, [B]: {}, [C]: {} };
  assert.deepEqual(done(situationOf(TWO, unused, { calls: [{ action }] })), []);
  const start = { startedAt: NOW - 1 };
  assert.deepEqual(done(situationOf(TWO, unused, start)), []);
});

Deno.test("plan() keeps an ENI of which an address is in use, though its blocks are retired", () => {
  const uses = {
    [A]: {},
    [B]: { retired: true, used: 1 },
    [C]: { retired: true },
  };
  assert.deepEqual(plan(situationOf(TWO, uses)).actions, [
    { kind: "unassign", eni: "eni-1", blocks: [Prefix.parse(C)] },
  ]);
});

Deno.test("plan() gives back blocks, not the ENI, when it is adopted, young, or the node is cordoned", () => {
  const uses = { [A]: {}, [B]: { retired: true }, [C]: { retired: true } };
  const [first] = TWO;
  assert.ok(first);
  const adopted = { blocks: [B, C], ownership: "adopted" } as const;
  const young = { blocks: [B, C], attachment: { since: NOW - 59_999 } };
  for (
    const situation of [
      situationOf([first, adopted], uses),
      situationOf([first, young], uses),
      situationOf(TWO, uses, { attaches: false }),
    ]
  ) {
    assert.deepEqual(done(situation), ["unassign eni-1"]);
  }
});

Deno.test("plan() touches nothing of a foreign ENI", () => {
  const foreign = { blocks: [B, C], ownership: "foreign" } as const;
  const uses = { [A]: {}, [B]: { retired: true }, [C]: { retired: true } };
  assert.deepEqual(done(situationOf([{ blocks: [A] }, foreign], uses)), []);
});

Deno.test("plan() uses an ENI that is drained before it makes another", () => {
  const uses = {
    [A]: { used: 1 },
    [B]: { retired: true },
    [C]: { retired: true },
  };
  const full = { blocks: [A, "10.0.96.30/32", "10.0.96.31/32"] };
  const busy = {
    ...uses,
    "10.0.96.30/32": { used: 1 },
    "10.0.96.31/32": { used: 1 },
  };
  const [, second] = TWO;
  assert.ok(second);
  assert.deepEqual(done(situationOf([full, second], busy)), [
    "unassign eni-1",
  ]);
});

Deno.test("plan() asks for what pods need where it is cautious after a start", () => {
  const targets = targetsOf({ warmIps: 3 });
  const none = { startedAt: NOW - 1, targets };
  const { actions } = plan(situationOf([{}], {}, none));
  assert.deepEqual(actions, [{
    kind: "assign",
    eni: "eni-0",
    subnet: "subnet-1",
    what: "address",
    count: 1,
  }]);
  const free = situationOf([{ blocks: [A] }], { [A]: {} }, none);
  assert.deepEqual(done(free), []);
});

Deno.test("plan() deletes no loose ENI, and detaches none, right after a start", () => {
  const start = { startedAt: NOW - 1 };
  const loose = { ...eniOf(2, {}), attachment: undefined };
  const uses = { [A]: {}, [B]: { retired: true }, [C]: { retired: true } };
  const situation = situationOf(TWO, uses, start);
  const enis = [...situation.enis, ...mergeEnis([loose], [])];
  assert.deepEqual(done({ ...situation, enis }), ["unassign eni-1"]);
  assert.deepEqual(done({ ...situation, enis, startedAt: 0 }), [
    "detach eni-1",
    "delete eni-2",
  ]);
});

Deno.test("plan() deletes no loose ENI that a call under way may have made", () => {
  const loose = { ...eniOf(2, { blocks: [C] }), attachment: undefined };
  const situation = situationOf([{ blocks: [A] }], { [A]: {} });
  const enis = [...situation.enis, ...mergeEnis([loose], [])];
  const action = {
    kind: "create",
    subnet: "subnet-1",
    what: "address",
    count: 1,
  } as const;
  const end = (at: number, outcome: EniOutcome) => [{
    action,
    ended: { at, outcome },
  }];
  const after = (calls: readonly EniCall[]) =>
    done({ ...situation, enis, calls });
  assert.deepEqual(after([{ action }]), []);
  assert.deepEqual(after(end(NOW - 1, { kind: "unknown" })), []);
  const refused = { kind: "refused", why: "other" } as const;
  assert.deepEqual(after(end(NOW - 1, refused)), ["delete eni-2"]);
});

Deno.test("plan() attaches a loose ENI at the lowest free device, before it asks for more", () => {
  const loose = { ...eniOf(2, { blocks: [C] }), attachment: undefined };
  const uses = { [A]: { used: 1 }, [B]: { used: 1 } };
  const situation = situationOf([{ blocks: [A] }, { blocks: [B] }], uses);
  const enis = [...situation.enis, ...mergeEnis([loose], [])];
  const { actions } = plan({ ...situation, enis });
  assert.deepEqual(actions, [{ kind: "attach", eni: "eni-2", device: 2 }]);
});

Deno.test("plan() gives each ENI its /80, and makes those of coild end with the instance", () => {
  const outlives = { blocks: [B], attachment: { endsWithInstance: false } };
  const uses = { [A]: { used: 1 }, [B]: {} };
  const situation = situationOf([{ blocks: [A] }, outlives], uses);
  assert.deepEqual(done(situation), ["endWithInstance eni-1"]);
  assert.deepEqual(done({ ...situation, ipv6: true }), [
    "assign eni-0",
    "assign eni-1",
  ]);
  const dual = situationOf(
    [{ blocks: [A], ipv6: true }, { blocks: [B], ipv6: true }],
    uses,
    { ipv6: true },
  );
  assert.deepEqual(done(dual), []);
});

Deno.test("plan() gives the primary ENI its /80 where pods have IPv6 alone, and asks for nothing else", () => {
  const alone = { ipv4: false, ipv6: true, waiting: 9 };
  const none = situationOf([{}, { blocks: [B] }], {}, alone);
  const { ec2 } = none.enis[0] ?? {};
  assert.deepEqual(plan(none).actions, [
    {
      kind: "assign",
      eni: "eni-0",
      subnet: ec2?.subnet,
      what: "ipv6",
      count: 1,
    },
  ]);
  const has = situationOf([{ ipv6: true }, {}], {}, alone);
  const { unmet, retire } = plan(has);
  assert.deepEqual([done(has), unmet, retire], [[], undefined, []]);
  const fixed = plan({ ...none, provisions: false });
  assert.equal(fixed.unmet?.why, "fixed");
});

Deno.test("plan() replaces an ENI that the metadata do not show for two minutes", () => {
  const uses = { [A]: { used: 1 } };
  const unseen = (since: number) =>
    situationOf(
      [{ blocks: [A] }, { blocks: [B], imds: false, attachment: { since } }],
      uses,
    );
  assert.deepEqual(done(unseen(NOW - 119_999)), []);
  assert.deepEqual(done(unseen(NOW - 120_000)), [
    "assign eni-0",
    "detach eni-1",
  ]);
});

Deno.test("plan() begins nothing at an ENI whose last call may still be done, nor while that is paused", () => {
  const uses = { [A]: {}, [B]: { retired: true }, [C]: { used: 1 } };
  const call: EniCall = {
    action: { kind: "unassign", eni: "eni-1", blocks: [Prefix.parse(B)] },
    ended: { at: NOW - 1, outcome: { kind: "unknown" } },
  };
  assert.deepEqual(done(situationOf(TWO, uses)), ["unassign eni-1"]);
  assert.deepEqual(done(situationOf(TWO, uses, { calls: [call] })), []);
  const pace = new Map([["eni-1", { until: NOW + 1, failures: 1 }]]);
  assert.deepEqual(done(situationOf(TWO, uses, { pace })), []);
});

/** A node whose ENIs are full, with a loose one beside them. */
function withLoose(
  more: Partial<Situation>,
  { enis: most }: { readonly enis: number },
): Situation {
  const [first, second] = [[3, 4, 5], [6, 7, 8]].map((ends) =>
    ends.map((end) => `10.0.96.${end}0/32`)
  );
  const looks = [{ blocks: first ?? [] }, { blocks: second ?? [] }];
  const uses = Object.fromEntries(
    looks.flatMap(({ blocks }) => blocks).map((text) => [text, { used: 1 }]),
  );
  const limits = { enis: most, addressesPerEni: 4, prefixes: true };
  const situation = situationOf(looks, uses, { limits, ...more });
  const loose = { ...eniOf(2, { blocks: [C] }), attachment: undefined };
  return {
    ...situation,
    enis: [...situation.enis, ...mergeEnis([loose], [])],
  };
}

Deno.test("plan() counts the room that a loose ENI has left", () => {
  const after = (waiting: number) => done(withLoose({ waiting }, { enis: 4 }));
  // Targets want one more than those that wait; the ENI has one, and room for two.
  assert.deepEqual(after(2), ["attach eni-2"]);
  assert.deepEqual(after(3), ["attach eni-2", "create 1 address"]);
});

Deno.test("plan() deletes a loose ENI for which the instance has no place, although addresses are short", () => {
  const waiting = 1;
  assert.deepEqual(done(withLoose({ waiting }, { enis: 2 })), ["delete eni-2"]);
  assert.deepEqual(done(withLoose({ waiting }, { enis: 3 })), ["attach eni-2"]);
});

Deno.test("plan() counts what calls under way will add, and room on ENIs that come", () => {
  const full = ["10.0.96.30/32", "10.0.96.31/32", A];
  const uses = Object.fromEntries(full.map((text) => [text, { used: 1 }]));
  const after = (action: Action, waiting: number) =>
    done(situationOf([{ blocks: full }, { blocks: [B] }], {
      ...uses,
      [B]: { used: 1 },
    }, { calls: [{ action }], waiting }));
  const subnet = "subnet-1";
  const what = "address";
  const assign = { kind: "assign", eni: "eni-1", subnet, what } as const;
  // Targets want one more than those that wait.
  assert.deepEqual(after({ ...assign, count: 2 }, 1), []);
  assert.deepEqual(after({ ...assign, count: 1 }, 1), [], "later");
  assert.deepEqual(after({ ...assign, count: 2 }, 2), ["create 1 address"]);
  const create = { kind: "create", subnet, what, count: 1 } as const;
  assert.deepEqual(after(create, 2), []);
  assert.deepEqual(after(create, 3), ["assign eni-1"]);
});

Deno.test("plan() counts an ENI once whose attachment is seen before its answer", () => {
  const action = { kind: "attach", eni: "eni-1", device: 1 } as const;
  const ended = { at: NOW - 1, outcome: { kind: "unknown" } } as const;
  const uses = { [A]: { used: 1 }, [B]: { used: 1 }, [C]: { used: 1 } };
  const looks = [{ blocks: [A] }, { blocks: [B, C] }];
  const calls = [{ action, ended }];
  const { actions } = plan(situationOf(looks, uses, { calls, waiting: 2 }));
  assert.deepEqual(actions, [{
    kind: "assign",
    eni: "eni-0",
    subnet: "subnet-1",
    what: "address",
    count: 2,
  }]);
});

Deno.test("plan() says how many addresses are short for good, and why", () => {
  const uses = { [A]: { used: 1 } };
  const unmet = (more: Partial<Situation>) =>
    plan(situationOf([{ blocks: [A] }], uses, { waiting: 1, ...more })).unmet;
  assert.equal(unmet({}), undefined);
  const limits = { enis: 1, addressesPerEni: 2, prefixes: true };
  assert.deepEqual(unmet({ limits }), { addresses: 2, why: "limit" });
  const full = { until: NOW + 1, failures: 1, atMost: 1 };
  assert.deepEqual(unmet({ pace: new Map([["subnet-1 address", full]]) }), {
    addresses: 2,
    why: "subnet",
  });
  const pause = { until: NOW + 1, failures: 1 };
  const pace = new Map([["eni-0", pause], ["create", pause]]);
  assert.deepEqual(unmet({ pace }), { addresses: 2, why: "paused" });
  // An ENI that is being made has room for them.
  const create = {
    kind: "create",
    subnet: "subnet-1",
    what: "address",
    count: 1,
  } as const;
  assert.equal(unmet({ pace, calls: [{ action: create }] }), undefined);
});

Deno.test("plan() leaves everything as it is where EC2 may not be asked", () => {
  const fixed = { provisions: false } as const;
  const unused = { [A]: {}, [B]: {}, [C]: {} };
  assert.deepEqual(done(situationOf(TWO, unused, fixed)), []);
  const retired = { [A]: {}, [B]: { retired: true }, [C]: { retired: true } };
  assert.deepEqual(done(situationOf(TWO, retired, fixed)), []);
  const look = { blocks: [A], attachment: { endsWithInstance: false } };
  const short = { ...fixed, waiting: 1 };
  const used = situationOf([{}, look], { [A]: { used: 1 } }, short);
  assert.deepEqual(done(used), []);
  assert.deepEqual(plan(used).unmet, { addresses: 2, why: "fixed" });
  assert.equal(plan(situationOf(TWO, unused, fixed)).unmet, undefined);
});

Deno.test("plan() is due when a block may go, an ENI is old enough, a pause ends or EC2's list has settled", () => {
  const due = (...args: Parameters<typeof situationOf>) =>
    plan(situationOf(...args)).dueAt - NOW;
  const one = [{ blocks: [A] }];
  const used = { [A]: { used: 1, emptySince: undefined } };
  assert.equal(due(one, used), Infinity);
  assert.equal(due(one, { [A]: { emptySince: NOW - 10_000 } }), 20_000);
  const pace = new Map([["eni-9", { until: NOW + 77, failures: 1 }]]);
  assert.equal(due(one, used, { pace }), 77);
  assert.equal(
    due(one, used, { startedAt: NOW - 1_000, lookedAt: NOW }),
    9_000,
  );
  const young = { blocks: [B], attachment: { since: NOW - 10_000 } };
  const both = { ...used, [B]: { emptySince: undefined } };
  assert.equal(due([...one, young], both), 50_000);
  assert.equal(due([...one, { ...young, imds: false }], both), 110_000);
  const ended = { at: NOW - 4_000, outcome: { kind: "unknown" } } as const;
  const action = { kind: "delete", eni: "eni-9" } as const;
  assert.equal(due(one, used, { calls: [{ action, ended }] }), 6_000);
});

Deno.test("stateOf() derives where an ENI is on its way", () => {
  const state = (look: Look, uses = {}) => {
    const situation = situationOf([{}, look], uses);
    const [, eni] = situation.enis;
    assert.ok(eni);
    return stateOf(eni, situation.uses);
  };
  assert.equal(state({}), "ready");
  assert.equal(state({ imds: false }), "unseen");
  const attaching = { attachment: { state: "attaching" } } as const;
  assert.equal(state({ ...attaching, imds: false }), "attaching");
  assert.equal(state(attaching), "ready", "the metadata show it attached");
  assert.equal(state({ attachment: { state: "detaching" } }), "detaching");
  const blocks = [B, C];
  assert.equal(state({ blocks }, { [B]: { retired: true } }), "ready");
  const retired = { [B]: { retired: true }, [C]: { retired: true } };
  assert.equal(state({ blocks }, retired), "draining");
  const [loose] = mergeEnis([{ ...eniOf(1, {}), attachment: undefined }], []);
  const [gone] = mergeEnis([], [{ id: "eni-1", device: 1, blocks: [] }]);
  assert.ok(loose && gone);
  assert.equal(stateOf(loose, new Map()), "loose");
  assert.equal(stateOf(gone, new Map()), "gone");
});

Deno.test("countsOf() counts what is used of a block that EC2 has no longer, and nothing more", () => {
  const situation = situationOf(
    [{ blocks: ["10.0.97.0/28"] }],
    { "10.0.97.0/28": { used: 3, cooling: 2 } },
  );
  const counts = (enis: Situation["enis"]) =>
    countsOf(membersOf({ ...situation, enis }), situation);
  const some = { used: 3, cooling: 2, waiting: 0 };
  assert.deepEqual(counts(situation.enis), {
    ...some,
    total: 16,
    prefixes: 1,
    freePrefixes: 0,
  });
  const stale = situation.enis.map((eni) => ({
    ...eni,
    grants: eni.grants.map((grant) => ({ ...grant, inEc2: false })),
  }));
  assert.deepEqual(counts(stale), {
    ...some,
    total: 5,
    prefixes: 0,
    freePrefixes: 0,
  });
});

Deno.test("doubtfulBlocks() are those that an earlier process may have given back", () => {
  const uses = { [A]: { used: 1 }, [B]: {}, [C]: {} };
  const call: EniCall = {
    action: {
      kind: "assign",
      eni: "eni-1",
      subnet: "subnet-1",
      what: "address",
      count: 1,
    },
    ended: {
      at: NOW - 1,
      outcome: { kind: "done", blocks: [Prefix.parse(C)] },
    },
  };
  const doubtful = (
    startedAt: number,
  ) => [
    ...doubtfulBlocks(situationOf(TWO, uses, { startedAt, calls: [call] })),
  ];
  assert.deepEqual(doubtful(NOW - 1), [B]);
  assert.deepEqual(doubtful(NOW - 10_000), []);
});
