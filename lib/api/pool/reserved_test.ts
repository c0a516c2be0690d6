import assert from "node:assert/strict";
import fc from "fast-check";
import { valuesOf } from "../../inet/mod.ts";
import type { SubnetSpec } from "./address_pool.ts";
import { blockPrefixes, MAX_BLOCKS, poolCapacity, poolOf } from "./pool.ts";
import { poolStatus } from "./pool_status.ts";
import { isReserved, reservedBlocks } from "./reserved.ts";
import { parseReserved } from "./reserved_entries.ts";

function pool(
  reserved: readonly string[],
  subnets: readonly SubnetSpec[],
  bits = 2,
) {
  return poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "p" },
    spec: { blockSizeBits: bits, subnets, reserved },
  });
}

Deno.test("parseReserved() says which entry it cannot read", () => {
  assert.deepEqual(parseReserved(), []);
  assert.throws(
    () => pool(["10.2.0.1", "10.2.0.x"], [{ ipv4: "10.2.0.0/24" }]),
    /AddressPool "p": spec.reserved\[1\]: neither .* CIDR: "10.2.0.x"/,
  );
});

/** Entries in and around the subnets of {@linkcode DUAL}. */
const ENTRY = fc.tuple(
  fc.constantFrom("10.2.0.", "10.4.0.", "10.9.0.", "fd02::", "fd02::1:"),
  fc.nat({ max: 33 }),
  fc.nat({ max: 33 }),
).map(([start, from, to]) => {
  const digits = (n: number) => start.startsWith("f") ? n.toString(16) : `${n}`;
  return `${start}${digits(from)}-${start}${digits(to)}`;
});

const DUAL = [
  { ipv4: "10.2.0.0/28", ipv6: "fd02::/124" },
  { ipv4: "10.4.0.16/28", ipv6: "fd02::1:0/124" },
];

Deno.test("reservedBlocks() and the status are exact: compared address by address", () => {
  const some = fc.array(ENTRY, { maxLength: 4 });
  const indices = fc.uniqueArray(fc.nat({ max: 7 }));
  fc.assert(fc.property(some, indices, (reserved, allocated) => {
    const dual = pool(reserved, DUAL);
    const { whole, partly } = reservedBlocks(dual);
    let free = 0;
    for (let index = 0; index < poolCapacity(dual); index++) {
      const prefixes = valuesOf(blockPrefixes(dual, index) ?? {});
      const gone = [0n, 1n, 2n, 3n].filter((position) =>
        prefixes.some((prefix) =>
          isReserved(dual, prefix.nth(position))
        )
      ).length;
      const isWhole = whole.some((s) => index >= s.first && index <= s.last);
      assert.equal(isWhole, gone === 4, `block ${index} of ${reserved}`);
      const count = gone === 4 ? 0 : gone;
      assert.equal(partly.get(index) ?? 0, count, `block ${index}`);
      if (!allocated.includes(index)) free += 4 - gone;
    }
    const status = poolStatus(dual, { allocated, now: new Date(0) });
    assert.equal(status.ipv4?.free, `${free}`);
    assert.equal(status.ipv6?.free, `${free}`);
    const { blocks } = status;
    const unavailable = blocks?.unavailable ?? 0;
    assert.equal(blocks?.free, 8 - allocated.length - unavailable);
  }));
});

Deno.test("reservedBlocks() of a huge pool costs no more", () => {
  const huge = pool(["fd02::5-fd02:0:0:1::"], [{ ipv6: "fd02::/16" }], 8);
  assert.deepEqual(reservedBlocks(huge), {
    whole: [{ first: 1, last: MAX_BLOCKS - 1 }],
    partly: new Map([[0, 251]]),
  });
});

Deno.test("reservedBlocks() joins what is next to each other, and tells families apart", () => {
  const pieces = ["10.2.0.6-10.2.0.7", "10.2.0.4", "10.2.0.5", "10.2.0.4/31"];
  assert.deepEqual(reservedBlocks(pool(pieces, [{ ipv4: "10.2.0.0/28" }])), {
    whole: [{ first: 1, last: 1 }],
    partly: new Map(),
  });
  // "::a02:4" has the number of 10.2.0.4.
  assert.deepEqual(reservedBlocks(pool(pieces, [{ ipv6: "::a02:0/124" }])), {
    whole: [],
    partly: new Map(),
  });
});

Deno.test("reserved addresses of blocks that others have are not taken off the free ones", () => {
  const v4 = pool(["10.2.0.5", "10.2.0.9"], [{ ipv4: "10.2.0.0/28" }]);
  const overlap = { taken: [{ first: 1, last: 1 }], message: "" };
  const { ipv4 } = poolStatus(v4, { allocated: [], overlap, now: new Date(0) });
  assert.equal(ipv4?.free, "11");
});

Deno.test("CapacityLow does not count blocks that are reserved", () => {
  const low = (reserved: readonly string[], used: number) => {
    const v4 = pool(reserved, [{ ipv4: "10.2.0.0/25" }]);
    const allocated = Array.from({ length: used }, (_, n) => n);
    const { conditions } = poolStatus(v4, { allocated, now: new Date(0) });
    return conditions?.find(({ type }) => type === "CapacityLow")?.status;
  };
  // Of 32 blocks 3 are free; of the 16 that are not reserved, 2.
  assert.equal(low([], 29), "True");
  assert.equal(low(["10.2.0.64/26"], 14), "False");
  assert.equal(low(["10.2.0.64/26"], 15), "True");
});
