import assert from "node:assert/strict";
import fc from "fast-check";
import { parseReserved } from "../../api/mod.ts";
import { Address, valuesOf } from "../../inet/mod.ts";
import { dual } from "../testing.ts";
import { AddressTable } from "./address_table.ts";
import type { HeldBlock } from "./held_block.ts";

let uid = 0;

function add(table: AddressTable, pool: string, prefixes: string): HeldBlock {
  return table.addBlock({
    pool,
    name: `${pool}-${++uid}`,
    uid: `${uid}`,
    index: uid,
    prefixes: dual(prefixes),
    reserved: false,
    deleting: false,
  }, 0);
}

function give(table: AddressTable, pool: string): string | undefined {
  const key = { pool, containerId: `c${++uid}`, ifname: "eth0" };
  return table.assign(key, { now: 0 })?.addresses.ipv4?.toString();
}

Deno.test("a block overlaps another if one family does", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  add(table, "a", "10.0.0.0/30 fd00::/126");
  const both = add(table, "b", "10.9.0.0/30 fd00::/126");
  const one = add(table, "c", "10.0.0.0/31");
  const none = add(table, "d", "10.1.0.0/30 fd01::/126");
  assert.deepEqual(
    [both, one, none].map(({ holds }) => [...holds]),
    [["overlapping"], ["overlapping"], []],
  );
});

Deno.test("a block overlaps as long as one of those before it that it overlaps is there", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  const first = add(table, "a", "10.0.0.0/31");
  const second = add(table, "a", "10.0.0.2/31");
  const other = add(table, "a", "10.5.0.0/31");
  const block = add(table, "b", "10.0.0.0/30");
  for (const gone of [other, first]) {
    table.removeBlock(gone);
    assert.equal(block.isUsable, false);
  }
  table.removeBlock(second);
  assert.equal(block.isUsable, true);
});

Deno.test("what is given out of a block is not given out of one that overlaps it when that is free to use", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  const first = add(table, "a", "10.0.0.0/31");
  add(table, "b", "10.0.0.0/31");
  assert.equal(give(table, "a"), "10.0.0.0");
  table.removeBlock(first);
  assert.equal(give(table, "b"), "10.0.0.1");
  assert.equal(give(table, "b"), undefined);
});

Deno.test("AddressBlock edited by hand: a pod gets no address of a block that overlaps the one it is given from", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  add(table, "a", "fd00::/127");
  add(table, "b", "10.0.0.0/31");
  add(table, "a", "10.0.0.0/31 fd00::/127");
  const key = { pool: "a", containerId: "c", ifname: "eth0" };
  const { addresses } = table.assign(key, { now: 0 }) ?? {};
  assert.deepEqual(Object.values(addresses ?? {}).map(String), ["fd00::"]);
});

Deno.test("a block goes on after the pod that came last, not after the highest address", () => {
  const table = new AddressTable({ cooldownMs: 0 });
  for (const text of ["10.0.0.5", "10.0.0.1"]) {
    const addresses = { ipv4: Address.parse(text) };
    const key = { containerId: text, ifname: "eth0", pool: "a" };
    table.register({ ...key, addresses }, 0);
  }
  add(table, "a", "10.0.0.0/29");
  assert.equal(give(table, "a"), "10.0.0.2");
});

Deno.test("takeRests() keeps a pair of addresses for as long as the later of them rests", () => {
  const table = new AddressTable({ cooldownMs: 30_000 });
  const rests = [
    ["10.0.0.0", 5_000],
    ["10.0.0.1", 20_000],
    ["10.0.0.2", 15_000],
    ["fd00::1", 10_000],
  ] as const;
  const resting = rests.map(([text, restedMs]) => ({
    address: Address.parse(text),
    restedMs,
  }));
  table.takeRests(resting, 0);
  const block = add(table, "a", "10.0.0.0/30 fd00::/126");
  const ends = [15_000, 20_000, 25_000];
  for (const end of ends) {
    assert.deepEqual([block.coolingUntil, table.coolingUntil], [end, end]);
    assert.equal(table.purge(end - 1), false);
    assert.equal(table.purge(end), true);
  }
  assert.deepEqual([block.freeCount, block.emptySince], [4, 25_000]);
});

/** What `PoolBlocks` answers, by a walk over all blocks. */
function walk(table: AddressTable, pool: string) {
  const blocks = [...table.blocks.values()]
    .filter(({ info }) => info.pool === pool)
    .sort((a, b) => a.info.index - b.info.index || a.sequence - b.sequence);
  const isReturning = ({ holds }: HeldBlock) => holds.has("returning");
  const sum = (count: (block: HeldBlock) => number) =>
    blocks.reduce((total, block) => total + count(block), 0);
  return {
    all: blocks,
    open: blocks.find((block) => block.isUsable && block.freeCount > 0),
    empty: blocks.filter((block) => block.isEmpty && !isReturning(block)),
    returning: new Set(blocks.filter(isReturning)),
    free: sum((block) => block.isPromising ? block.freeCount : 0),
    held: sum((block) => block.heldCount),
    cooling: sum((block) => block.coolingCount),
  };
}

const HOLDS = ["unexported", "returning", "edited"] as const;
const BLOCKS = [
  "10.0.0.0/31",
  "10.0.0.2/31",
  "10.0.0.0/30",
  "10.1.0.7/32",
  "fd00::/126",
  "10.0.0.0/30 fd00::/126",
  // Edited by hand.
  "10.0.0.4/31 fd00::2/128",
];

/** One change of a table, at a time in seconds, of a pool, and a block or attachment of those there are. */
const STEPS: Record<
  string,
  (table: AddressTable, pick: number, now: number) => void
> = {
  add: (table, pick) => {
    const prefixes = BLOCKS[pick % BLOCKS.length] ?? "";
    const index = pick % 5;
    const block = { index, name: "b", prefixes: dual(prefixes) };
    const flags = { reserved: pick % 11 === 0, deleting: pick % 13 === 0 };
    const id = { pool: "ab"[pick % 2] ?? "a", uid: `${++uid}` };
    table.addBlock({ ...block, ...flags, ...id }, 0);
  },
  remove: (table, pick) => {
    const block = at(table.blocks.values(), pick);
    if (block !== undefined) table.removeBlock(block);
  },
  hold: (table, pick) => {
    const holds = at(table.blocks.values(), pick)?.holds;
    const hold = HOLDS[pick % HOLDS.length] ?? "returning";
    if (holds?.has(hold)) holds.delete(hold);
    else holds?.add(hold);
  },
  assign: (table, pick, now) => {
    const key = { containerId: `c${++uid}`, ifname: "eth0" };
    const pool = "ab"[pick % 2] ?? "a";
    const held = [...table.attachments.values()].flatMap((a) => [...a.held]);
    const given = table.assign({ ...key, pool }, { now, cooling: !(pick % 3) });
    for (const address of valuesOf(given?.addresses ?? {})) {
      const isTwice = held.some((other) => other.equals(address));
      assert.ok(!isTwice, `${address} is given twice`);
      assert.ok(table.isHeld(address));
    }
  },
  register: (table, pick, now) => {
    const ipv4 = Address.parse(`10.0.0.${pick % 6}`);
    const ipv6 = Address.parse(`fd00::${pick % 4}`);
    const addresses = [{ ipv4 }, { ipv6 }, { ipv4, ipv6 }][pick % 3] ?? {};
    const key = { containerId: `c${++uid}`, ifname: "eth0" };
    table.register({ ...key, pool: "a", addresses }, now);
  },
  drop: (table, pick, now) => {
    const attachment = at(table.attachments.values(), pick);
    if (attachment !== undefined) table.remove(attachment, now);
  },
  purge: (table, _pick, now) => table.purge(now),
};

function at<T>(values: Iterable<T>, pick: number): T | undefined {
  const list = [...values];
  return list[pick % (list.length || 1)];
}

Deno.test("after any changes the pools of a table answer as a walk over all blocks would", () => {
  const step = fc.record({
    name: fc.constantFrom(...Object.keys(STEPS)),
    pick: fc.nat(1_000),
    ms: fc.nat(1_000),
  });
  fc.assert(fc.property(fc.array(step, { size: "+1" }), (steps) => {
    const reservedOf = () => parseReserved(["10.0.0.1"]);
    const table = new AddressTable({ cooldownMs: 2_000, reservedOf });
    let now = 0;
    for (const { name, pick, ms } of steps) {
      now += ms;
      STEPS[name]?.(table, pick, now);
      for (const pool of table.pools) {
        const blocks = table.blocksOf(pool);
        const { all, open, empty, returning, free, held, cooling } = blocks;
        const found = { all, open, empty, returning, free, held, cooling };
        assert.deepEqual(found, walk(table, pool), name);
      }
      table.purge(now);
      const untils = [...table.blocks.values()]
        .map(({ coolingUntil = Infinity }) => coolingUntil);
      const first = Math.min(Infinity, ...untils);
      assert.equal(table.coolingUntil ?? Infinity, first);
      assert.ok(first > now, "nothing rests for too long");
    }
    for (const attachment of [...table.attachments.values()]) {
      table.remove(attachment, now);
    }
    table.purge(now + 2_000);
    for (const { freeCount, reservedCount, size } of table.blocks.values()) {
      assert.equal(freeCount + reservedCount, size, "no address is lost");
    }
  }));
});
