import assert from "node:assert/strict";
import type { NetworkInterface } from "../../../lib/aws/mod.ts";
import {
  Address,
  FAMILIES,
  type Family,
  Prefix,
} from "../../../lib/inet/mod.ts";
import type { Ec2Eni, EniCall } from "../../../lib/vpc/mod.ts";
import type { Sight } from "./sight.ts";
import { CloudView } from "./view.ts";

function eniOf(
  id: string,
  state?: "attaching" | "attached",
  ...blocks: string[]
): Ec2Eni {
  return {
    id,
    subnet: "subnet-1",
    ownership: "owned",
    address: Address.parse("10.0.1.4"),
    blocks: blocks.map((text) => Prefix.parse(text)),
    attachment: state && {
      id: `attach-${id}`,
      device: 1,
      state,
      since: 0,
      endsWithInstance: true,
    },
  };
}

function sightOf(enis: Readonly<Record<string, readonly string[]>>): Sight {
  return {
    enis: Object.entries(enis).map(([id, blocks]) => ({
      id,
      device: 1,
      blocks: blocks.map((text) => Prefix.parse(text)),
    })),
    facts: new Map(),
    vpcCidrs: [],
  };
}

/** A view of these ENIs, where EC2's list was asked for at 0. */
function viewOf(...enis: Ec2Eni[]): CloudView {
  const view = new CloudView(() => enis, { families: FAMILIES });
  view.saw({ enis: [] as NetworkInterface[], lookedAt: 0 });
  return view;
}

const A = "10.0.1.5/32";
const B = "10.0.1.6/32";
const ASSIGN: EniCall = {
  action: {
    kind: "assign",
    eni: "e",
    subnet: "subnet-1",
    what: "address",
    count: 1,
  },
};

Deno.test("a view is there when both have shown something", () => {
  const view = viewOf(eniOf("e", "attached", A));
  assert.equal(view.scene(), undefined);
  view.sawMetadata(sightOf({ e: [A] }));
  assert.deepEqual(view.scene()?.enis.map(({ id }) => id), ["e"]);
  assert.equal(view.awaitsEc2 || view.awaitsMetadata, false);
  assert.equal(view.mayHaveLoose, false);
});

Deno.test("a view puts all together once, until something else is seen", () => {
  const view = viewOf(eniOf("e", "attached", A));
  view.sawMetadata(sightOf({ e: [A] }));
  const changes = [
    () => view.saw({ enis: [], lookedAt: 1 }),
    () => view.sawMetadata(sightOf({ e: [A, B] })),
    () => view.end(ASSIGN, { at: 2, outcome: { kind: "unknown" } }),
  ];
  for (const change of changes) {
    const before = view.scene();
    assert.equal(view.scene(), before);
    change();
    assert.notEqual(view.scene(), before);
  }
});

Deno.test("a view awaits the metadata while they are behind, and ahead", () => {
  const view = viewOf(eniOf("e", "attached", A));
  const awaits = (enis: Readonly<Record<string, readonly string[]>>) => {
    view.sawMetadata(sightOf(enis));
    return view.awaitsMetadata;
  };
  assert.equal(awaits({ e: [] }), true);
  assert.equal(awaits({}), true);
  assert.equal(awaits({ e: [A, B] }), true);
  assert.equal(awaits({ e: [A] }), false);
});

Deno.test("a view awaits the metadata while they lack an ENI's /80, where pods have IPv6 addresses", () => {
  const ipv6 = Prefix.parse("fd10:0:0:1:1::/80");
  const eni = { ...eniOf("e", "attached", A), ipv6 };
  const sight = sightOf({ e: [A] });
  const awaits = (...families: Family[]) => {
    const view = new CloudView(() => [eni], { families });
    view.saw({ enis: [], lookedAt: 0 });
    view.sawMetadata(sight);
    return view.awaitsMetadata;
  };
  assert.equal(awaits("ipv4", "ipv6"), true);
  assert.equal(awaits("ipv6"), true);
  assert.equal(awaits("ipv4"), false);
});

Deno.test("a view awaits EC2 while ENIs move or it is not known what a call did, and counts answers", () => {
  const moving = viewOf(eniOf("e", "attaching"));
  moving.sawMetadata(sightOf({}));
  assert.equal(moving.awaitsEc2, true);
  assert.equal(moving.mayHaveLoose, true);
  const view = viewOf(eniOf("e", "attached", A));
  view.sawMetadata(sightOf({ e: [A] }));
  view.begin(ASSIGN);
  assert.deepEqual([view.isCalling, view.calls.length], [true, 1]);
  const blocks = [Prefix.parse(B)];
  view.end(ASSIGN, { at: 5, outcome: { kind: "done", blocks } });
  assert.deepEqual([view.isCalling, view.calls.length], [false, 1]);
  assert.equal(view.scene()?.enis[0]?.grants.length, 2);
  assert.deepEqual([view.awaitsEc2, view.awaitsMetadata], [false, true]);
  view.begin(ASSIGN);
  view.end(ASSIGN, { at: 6, outcome: { kind: "unknown" } });
  assert.equal(view.awaitsEc2, true);
  // EC2 has shown by then what there is to show.
  view.saw({ enis: [], lookedAt: 10_006 });
  assert.equal(view.scene()?.enis[0]?.grants.length, 2);
  assert.deepEqual([view.calls.length, view.awaitsEc2], [1, true]);
  view.saw({ enis: [], lookedAt: 120_005 });
  assert.equal(view.scene()?.enis[0]?.grants.length, 1);
  assert.deepEqual([view.calls.length, view.awaitsEc2], [0, false]);
});

Deno.test("a view awaits EC2 while its list lacks what a call did and the metadata show", () => {
  const view = viewOf(eniOf("e", "attached", A));
  view.sawMetadata(sightOf({ e: [A, B] }));
  view.begin(ASSIGN);
  const blocks = [Prefix.parse(B)];
  view.end(ASSIGN, { at: 5, outcome: { kind: "done", blocks } });
  view.saw({ enis: [], lookedAt: 10_005 });
  // These say whether others have undone it.
  assert.deepEqual([view.awaitsEc2, view.awaitsMetadata], [true, true]);
  assert.deepEqual(view.scene()?.enis[0]?.grants.at(-1), {
    block: blocks[0],
    inEc2: true,
    inImds: true,
  });
  view.saw({ enis: [], lookedAt: 300_005 });
  assert.equal(view.awaitsEc2, false);
});

Deno.test("a view awaits EC2 while its list lacks an ENI that the metadata show", () => {
  let list = [eniOf("e", "attached", A)];
  const view = new CloudView(() => list, { families: FAMILIES });
  const look = (lookedAt: number) => view.saw({ enis: [], lookedAt });
  look(0);
  view.sawMetadata(sightOf({ e: [A] }));
  assert.equal(view.awaitsEc2, false);
  list = [];
  look(1);
  assert.equal(view.awaitsEc2, true);
  view.sawMetadata(sightOf({}));
  assert.equal(view.awaitsEc2, false);
});

Deno.test("one ENI of several is enough for a view to await EC2 or the metadata", () => {
  const settled = eniOf("e", "attached", A);
  const moving = viewOf(settled, eniOf("f", "attaching"));
  moving.sawMetadata(sightOf({ e: [A] }));
  assert.deepEqual([moving.awaitsEc2, moving.awaitsMetadata], [true, false]);
  assert.equal(moving.mayHaveLoose, true);
  const behind = viewOf(settled, eniOf("f", "attached", B));
  behind.sawMetadata(sightOf({ e: [A], f: [] }));
  assert.deepEqual([behind.awaitsEc2, behind.awaitsMetadata], [false, true]);
});

Deno.test("ENIs without an instance are to be expected after calls that make some", () => {
  const eni = "f";
  const kinds: readonly [EniCall["action"], boolean][] = [
    [{ ...ASSIGN.action, kind: "create" } as EniCall["action"], true],
    [{ kind: "attach", eni, device: 2 }, true],
    [{ kind: "detach", eni, attachment: "a" }, true],
    [{ kind: "delete", eni }, true],
    [ASSIGN.action, false],
    [{ kind: "unassign", eni, blocks: [] }, false],
    [{ kind: "endWithInstance", eni, attachment: "a" }, false],
  ];
  for (const [action, expected] of kinds) {
    const view = viewOf(eniOf("e", "attached", A));
    view.sawMetadata(sightOf({ e: [A] }));
    const call = { action };
    view.begin(call);
    assert.equal(view.mayHaveLoose, expected, action.kind);
    view.end(call, { at: 0, outcome: { kind: "done" } });
    view.saw({ enis: [], lookedAt: 9_999 });
    assert.equal(view.mayHaveLoose, expected, action.kind);
    view.saw({ enis: [], lookedAt: 10_000 });
    assert.equal(view.mayHaveLoose, false, action.kind);
  }
});

Deno.test("a new ENI gets the security groups of the primary one", () => {
  const view = new CloudView(() => [], { families: FAMILIES });
  assert.deepEqual(view.groups, []);
  const enis = [1, 0].map((deviceIndex) => ({
    attachment: { deviceIndex },
    groups: [`sg-${deviceIndex}`],
  }));
  view.saw({ enis: enis as unknown as NetworkInterface[], lookedAt: 0 });
  assert.deepEqual(view.groups, ["sg-0"]);
});

Deno.test("what the metadata no longer show is news, unless EC2 has taken it away", () => {
  const view = viewOf(eniOf("e", "attached", A, B), eniOf("f", "attached"));
  view.sawMetadata(sightOf({ e: [A, B], f: [] }));
  assert.equal(
    view.sawMetadata(sightOf({ e: [A], f: [] })),
    true,
    "an address",
  );
  assert.equal(
    view.sawMetadata(sightOf({ e: [A], f: [] })),
    false,
    "as before",
  );
  assert.equal(view.sawMetadata(sightOf({ e: [A] })), true, "an ENI");
  const calls: readonly EniCall["action"][] = [
    { kind: "unassign", eni: "e", blocks: [Prefix.parse(A)] },
    { kind: "detach", eni: "f", attachment: "attach-f" },
  ];
  const taken = viewOf(eniOf("e", "attached", A), eniOf("f", "attached"));
  taken.sawMetadata(sightOf({ e: [A], f: [] }));
  for (const action of calls) {
    taken.end({ action }, { at: 1, outcome: { kind: "done" } });
  }
  assert.equal(taken.sawMetadata(sightOf({ e: [] })), false, "by coild");
});

Deno.test("what the metadata show is news when it changes and EC2 has not explained it", () => {
  const view = viewOf(eniOf("e", "attached", A));
  assert.equal(view.sawMetadata(sightOf({ e: [] })), false, "the first");
  assert.equal(view.sawMetadata(sightOf({ e: [A] })), false, "awaited");
  assert.equal(view.sawMetadata(sightOf({ e: [A, B] })), true);
  assert.equal(view.sawMetadata(sightOf({ e: [A, B] })), false, "as before");
  assert.equal(view.sawMetadata(sightOf({ e: [A], f: [] })), true);
});
