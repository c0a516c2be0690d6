import assert from "node:assert/strict";
import fc from "fast-check";
import { parseReserved } from "../../api/mod.ts";
import { Address, type DualStack, Prefix } from "../../inet/mod.ts";
import { BlockAllocator, type Slot } from "./block_allocator.ts";

const V4 = { ipv4: Prefix.parse("10.2.3.0/30") };
const V6 = { ipv6: Prefix.parse("fd02::ff00/126") };
const STACKS = [
  { name: "ipv4", prefixes: V4 },
  { name: "ipv6", prefixes: V6 },
  { name: "dual", prefixes: { ...V4, ...V6 } },
];

function texts(slot: Slot | undefined): (string | undefined)[] | undefined {
  return slot &&
    [slot.addresses.ipv4?.toString(), slot.addresses.ipv6?.toString()];
}

/** What the addresses at a position of the blocks above are, in text. */
function expected(
  prefixes: DualStack<Prefix>,
  index: number,
): (string | undefined)[] {
  return [
    prefixes.ipv4 && `10.2.3.${index}`,
    prefixes.ipv6 && `fd02::ff0${index}`,
  ];
}

/** Takes the position of an address of each family, which is the same one. */
function takeAt(
  block: BlockAllocator,
  addresses: readonly (string | undefined)[],
): number | undefined {
  const indexes = addresses.flatMap((text) =>
    text === undefined ? [] : [block.indexOf(Address.parse(text))]
  );
  const [index] = indexes;
  assert.deepEqual(indexes, indexes.map(() => index));
  if (index !== undefined) block.take(index);
  return index;
}

for (const { name, prefixes } of STACKS) {
  Deno.test(`AL-1 ${name}: a fresh block is empty and refuses outside addresses`, () => {
    const block = new BlockAllocator(prefixes);
    assert.equal(block.freeCount, block.size);
    assert.equal(takeAt(block, ["10.2.4.0", "fd02::1:0"]), undefined);
    assert.equal(takeAt(block, ["10.2.2.255", "fd02::feff"]), undefined);
    assert.equal(block.freeCount, 4);
  });

  Deno.test(`AL-2 to AL-6 ${name}: register, next after last, wrap, free twice`, () => {
    const block = new BlockAllocator(prefixes);
    assert.equal(takeAt(block, expected(prefixes, 0)), 0);
    assert.equal(takeAt(block, expected(prefixes, 2)), 2);
    assert.equal(block.freeCount, 2);

    assert.deepEqual(texts(block.allocate()), expected(prefixes, 3));
    assert.deepEqual(texts(block.allocate()), expected(prefixes, 1));
    assert.equal(block.allocate(), undefined);

    block.free(1);
    block.free(1);
    assert.deepEqual(texts(block.allocate()), expected(prefixes, 1));
    assert.equal(block.freeCount, 0);
  });

  Deno.test(`AL-7 ${name}: a filled block is empty after freeing all`, () => {
    const block = new BlockAllocator(prefixes);
    for (let i = 0; i < 4; i++) block.allocate();
    assert.equal(block.freeCount, 0);
    for (let i = 0; i < 4; i++) block.free(i);
    assert.equal(block.freeCount, 4);
  });

  Deno.test(`AL-8 ${name}: the last used is not used again at once`, () => {
    const block = new BlockAllocator(prefixes);
    for (let i = 0; i < 4; i++) block.allocate();
    block.free(3);
    block.free(0);
    assert.equal(block.allocate()?.index, 0);
    assert.equal(block.allocate()?.index, 3);
  });
}

Deno.test("v6-high-bits (coil#208): allocate() counts in 128 bits", () => {
  const block = new BlockAllocator({
    ipv6: Prefix.parse("2001:db8:aaaa:bbbb:cccc:dddd:ffff:f000/116"),
  });
  assert.equal(block.size, 4096);
  const first = block.allocate();
  assert.deepEqual(texts(first), [
    undefined,
    "2001:db8:aaaa:bbbb:cccc:dddd:ffff:f000",
  ]);
  const last = Address.parse("2001:db8:aaaa:bbbb:cccc:dddd:ffff:ffff");
  assert.equal(takeAt(block, [last.toString()]), 4095);
  // The one after the last is in the next 32 bits: it must not be taken for ours.
  assert.equal(block.indexOf(last.offset(1n)), undefined);
  assert.equal(block.allocate()?.index, 1);
});

Deno.test("allocate() costs the same in a huge block", () => {
  const block = new BlockAllocator({ ipv6: Prefix.parse("fd00::/64") });
  assert.equal(block.size, 2 ** 48);
  assert.deepEqual(texts(block.allocate()), [undefined, "fd00::"]);
  const inside = Address.parse("fd00::ffff:ffff:ffff");
  assert.equal(takeAt(block, [inside.toString()]), 2 ** 48 - 1);
  assert.equal(block.allocate()?.index, 1);
  assert.equal(block.indexOf(inside.offset(1n)), undefined);
});

Deno.test("reserve() costs the same in a huge block, of which no more is reserved than is used", () => {
  const block = new BlockAllocator({ ipv6: Prefix.parse("fd00::/64") });
  block.reserve(parseReserved(["fd00::-fd00::7", "fd00::9/64", "fd01::/64"]));
  assert.deepEqual([block.freeCount, block.reservedCount], [0, 2 ** 48]);
  block.reserve(parseReserved(["fd00::-fd00::7", "fd00::9-fd00:0:0:1::"]));
  assert.deepEqual([block.freeCount, block.reservedCount], [1, 2 ** 48 - 1]);
  assert.deepEqual(texts(block.allocate()), [undefined, "fd00::8"]);
  assert.equal(block.allocate(), undefined);
});

Deno.test("a block needs a prefix", () => {
  assert.throws(() => new BlockAllocator({}), RangeError);
});

Deno.test("allocate() and free() follow an array of booleans", () => {
  const steps = fc.array(
    fc.oneof(fc.constant(-1), fc.integer({ min: 0, max: 7 })),
    { maxLength: 60 },
  );
  fc.assert(fc.property(steps, (actions) => {
    const block = new BlockAllocator({ ipv4: Prefix.parse("10.0.0.8/29") });
    const taken = Array<boolean>(8).fill(false);
    let last = 7;
    for (const action of actions) {
      if (action >= 0) {
        block.free(action);
        taken[action] = false;
        continue;
      }
      const order = taken.map((_, i) => (last + 1 + i) % 8);
      const want = order.find((i) => !taken[i]);
      assert.equal(block.allocate()?.index, want);
      if (want === undefined) continue;
      taken[want] = true;
      last = want;
    }
    assert.equal(block.freeCount, taken.filter((one) => !one).length);
  }));
});
