import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import { type Link, linkSet, NetlinkError } from "../../netlink/mod.ts";
import { bytesOf } from "../../netlink/testing.ts";
import { planVeth } from "../plan/veth.ts";
import { FakeNetwork, linkOf } from "../testing.ts";
import type { Kernel } from "./ports.ts";
import { ensureVeth } from "./veth_pair.ts";

const SPEC = await planVeth({ containerId: "cid", ifname: "eth0" }, {
  mtu: 1400,
});
const OUTER = linkOf(7, {
  name: SPEC.hostName,
  alias: SPEC.alias,
  mtu: 1400,
  peerIndex: 3,
});
const INNER = linkOf(3, { name: "veth0", mtu: 1400, peerIndex: 7 });

function refusal(errno: number, lost?: "answer"): NetlinkError {
  return new NetlinkError("do it", { errno, lost });
}

const EEXIST = refusal(17);
const EPERM = refusal(1);

/** Both sides with these links, and what undoes what was done. */
class Site {
  readonly host: FakeNetwork;
  readonly pod: FakeNetwork;
  readonly #undo: (() => Promise<void>)[] = [];
  readonly #links: { outer?: Link | undefined; inner?: Link | undefined };

  constructor(
    links: { outer?: Link | undefined; inner?: Link | undefined } = {},
    podHas: readonly Link[] = [],
  ) {
    this.#links = links;
    this.host = new FakeNetwork({ links: links.outer ? [links.outer] : [] });
    this.pod = new FakeNetwork({ links: [...podHas] });
  }

  ensure() {
    const { host, pod } = this;
    const kernel = {
      host,
      pod,
      netns: { fd: 5 } as unknown as Netns, // written, not used
    } as Partial<Kernel> as Kernel; // all that is used
    const { outer: present, inner: inside } = this.#links;
    return ensureVeth(kernel, { spec: SPEC, inside, present }, {
      defer: (undo) => void this.#undo.push(undo),
    });
  }

  /** What undoes it, the last change first, as bytes. */
  async undone(): Promise<string[]> {
    for (const network of [this.host, this.pod]) network.bytes.length = 0;
    for (const undo of this.#undo.toReversed()) await undo();
    return [...this.pod.bytes, ...this.host.bytes];
  }
}

Deno.test("ensureVeth() takes the pair that is there as it is", async () => {
  const site = new Site({ outer: OUTER, inner: INNER });
  const { outer, inner, isNew } = await site.ensure();
  assert.deepEqual([outer, inner, isNew], [OUTER, INNER, false]);
  assert.deepEqual([site.host.sent, site.pod.sent], [[], []]);
});

Deno.test("ensureVeth() sets up a pair that has another MTU or is down, and puts that back", async () => {
  const up = bytesOf(linkSet({ index: 7 }, { mtu: 1400, up: true }));
  for (const before of [{ mtu: 1500, up: true }, { mtu: 1400, up: false }]) {
    const outer = { ...OUTER, ...before };
    const site = new Site({ outer, inner: INNER });
    await site.ensure();
    assert.deepEqual(site.host.bytes, [up]);
    assert.deepEqual(site.pod.bytes, []);
    assert.deepEqual(await site.undone(), [
      bytesOf(linkSet({ index: 7 }, before)),
    ]);
  }
  const inner = { ...INNER, mtu: 1500 };
  const site = new Site({ outer: OUTER, inner });
  await site.ensure();
  assert.deepEqual(site.pod.bytes, [
    bytesOf(linkSet({ index: 3 }, { mtu: 1400, up: true })),
  ]);
});

Deno.test("ensureVeth() names the pair of a call that was killed before it did", async () => {
  const site = new Site({
    outer: { ...OUTER, alias: undefined },
    inner: INNER,
  });
  assert.equal((await site.ensure()).isNew, false);
  const named = linkSet({ index: 7 }, { alias: SPEC.alias, up: true });
  assert.equal(site.host.bytes.at(-1), bytesOf(named));
});

Deno.test("ensureVeth() makes a pair where there is none, or half of one, or one that is cut off", async () => {
  const husk = { ...OUTER, alias: "COIL-COORD-HUSK:cid:eth0" };
  const cases: [ConstructorParameters<typeof Site>[0], string[]][] = [
    [{}, []],
    // The other end went with its pod's namespace, or is another's.
    [{ outer: OUTER }, ["delete link 7"]],
    [{ outer: OUTER, inner: linkOf(3, { peerIndex: 8 }) }, ["delete link 7"]],
    [{ outer: husk, inner: INNER }, ["delete link 7"]],
    // It has been deleted since it was read.
    [{ inner: INNER }, []],
  ];
  for (const [links, before] of cases) {
    const site = new Site(links);
    const { outer, inner, isNew } = await site.ensure();
    assert.ok(isNew);
    assert.deepEqual(site.host.sent.slice(0, -3), before);
    assert.deepEqual([outer.name, inner.name], [SPEC.hostName, "veth0"]);
    assert.deepEqual([outer.mac, inner.mac], [SPEC.hostMac, SPEC.podMac]);
    assert.equal((await site.undone()).length, 1);
  }
});

Deno.test("ensureVeth() refuses links that are not Coil's", async () => {
  const refused = async (site: Site, code: number) => {
    await assert.rejects(
      site.ensure(),
      (error) => error instanceof CniError && error.code === code,
    );
    assert.deepEqual([...site.host.sent, ...site.pod.sent], []);
  };
  const others: Partial<Link>[] = [
    { alias: "COIL-COORD:other:eth0" },
    { alias: "theirs" },
    { kind: "bridge" },
  ];
  for (const other of others) {
    const outer = { ...OUTER, ...other };
    await refused(new Site({ outer, inner: INNER }), 11);
  }
  await refused(new Site({ inner: INNER }, [INNER]), 7);
});

Deno.test("ensureVeth() tries once more where a name or an index was taken", async () => {
  const made = async (...errors: readonly (NetlinkError | undefined)[]) => {
    const site = new Site();
    const left = [...errors];
    site.host.answer = (request) =>
      request.startsWith("create") ? left.shift() : undefined;
    const { isNew } = await site.ensure();
    return isNew;
  };
  assert.ok(await made(EEXIST));
  assert.ok(await made(refusal(16)));
  await assert.rejects(made(EEXIST, EEXIST), EEXIST);
  await assert.rejects(made(EPERM), EPERM);
});

Deno.test("ensureVeth() takes back what may have been made, and fails where an end cannot be set up", async () => {
  const failed = async (part: string, error: NetlinkError) => {
    const site = new Site();
    site.host.answer = (request) =>
      request.startsWith(part) ? error : undefined;
    await assert.rejects(site.ensure(), error);
    site.host.answer = () => undefined;
    return (await site.undone()).length;
  };
  assert.equal(await failed("create", EPERM), 0);
  assert.equal(await failed("create", refusal(105, "answer")), 1);
  assert.equal(await failed("set link", EPERM), 1);
});

Deno.test("ensureVeth() takes indexes by chance of those that the kernel comes to last, and another for the other end", async () => {
  const indexes = new Set<number>();
  for (let n = 0; n < 20; n++) {
    const { outer, inner } = await new Site().ensure();
    assert.notEqual(outer.index, inner.index);
    for (const { index } of [outer, inner]) {
      assert.ok(index >= 2 ** 31 - 2 ** 28 && index < 2 ** 31, `${index}`);
      indexes.add(index);
    }
  }
  // Two of them may be the same, though hardly ever.
  assert.ok(indexes.size > 30, `${indexes.size}`);
});
