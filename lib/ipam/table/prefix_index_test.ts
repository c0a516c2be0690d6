import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, Prefix } from "../../inet/mod.ts";
import { PrefixIndex } from "./prefix_index.ts";

/** Prefixes that meet often: of the last three bits of either family. */
const prefix = fc.record({
  family: fc.constantFrom("ipv4" as const, "ipv6" as const),
  value: fc.bigInt(0n, 7n),
  hostBits: fc.nat(3),
}).map(({ family, value, hostBits }) => {
  const address = Address.of(family, value);
  return Prefix.of(address, address.bits - hostBits);
});

const step = fc.record({ isAdded: fc.boolean(), prefix, value: fc.nat(2) });

Deno.test("overlapping() finds what a comparison with each entry finds", () => {
  fc.assert(fc.property(fc.array(step), prefix, (steps, probe) => {
    const index = new PrefixIndex<number>();
    let entries: { prefix: Prefix; value: number }[] = [];
    for (const { isAdded, ...entry } of steps) {
      const isSame = (other: typeof entry) =>
        other.value === entry.value && other.prefix.equals(entry.prefix);
      const isThere = entries.some(isSame);
      if (!isAdded) {
        index.delete(entry.prefix, entry.value);
        entries = entries.filter((other) => !isSame(other));
      } else if (!isThere) {
        index.add(entry.prefix, entry.value);
        entries.push(entry);
      }
    }
    const expected = entries.filter((entry) => entry.prefix.overlaps(probe))
      .map(({ value }) => value);
    assert.deepEqual(index.overlapping(probe).sort(), expected.sort());
  }));
});
