import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, Prefix, valuesOf } from "../../inet/mod.ts";
import type { AddressPool, SubnetSpec } from "./address_pool.ts";
import {
  blockIndexOf,
  blockPrefixes,
  MAX_BLOCKS,
  parseSubnet,
  poolCapacity,
  type PoolLayout,
  poolOf,
  stackOf,
  type Subnet,
  subnetBlock,
  subnetCapacity,
  subnetEquals,
} from "./pool.ts";

function subnet(ipv4?: string, ipv6?: string): Subnet {
  return {
    ...(ipv4 === undefined ? {} : { ipv4: Prefix.parse(ipv4) }),
    ...(ipv6 === undefined ? {} : { ipv6: Prefix.parse(ipv6) }),
  };
}

function text(block: Subnet | undefined): string | undefined {
  return block && valuesOf(block).join(" ");
}

const ENTRIES: readonly {
  id: string;
  bits: number;
  entry: SubnetSpec;
  error?: RegExp;
}[] = [
  { id: "API-1", bits: 2, entry: {}, error: /neither ipv4 nor ipv6/ },
  { id: "API-2", bits: 2, entry: { ipv4: "10.0.0.0/24" } },
  {
    id: "API-3",
    bits: 2,
    entry: { ipv4: "a.b.c.d/16" },
    error: /invalid ipv4 subnet: "a.b.c.d\/16"/,
  },
  { id: "API-4", bits: 2, entry: { ipv6: "fd02::/112" } },
  {
    id: "API-5",
    bits: 2,
    entry: { ipv6: "fd02::zzzz/112" },
    error: /invalid ipv6 subnet/,
  },
  {
    id: "API-6",
    bits: 2,
    entry: { ipv4: "10.0.0.0/24", ipv6: "fd02::/120" },
  },
  {
    id: "API-7",
    bits: 2,
    entry: { ipv4: "10.0.0.0/24", ipv6: "fd02::zzzz/120" },
    error: /invalid ipv6 subnet/,
  },
  {
    id: "API-8",
    bits: 2,
    entry: { ipv4: "10.0.0.0", ipv6: "fd02::/120" },
    error: /invalid ipv4 subnet/,
  },
  {
    id: "API-9",
    bits: 2,
    entry: { ipv4: "10.0.0.0/24", ipv6: "fd02::/112" },
    error: /dual stack subnet must be the same size/,
  },
  { id: "API-10", bits: 0, entry: { ipv4: "10.0.0.1/32" } },
  { id: "API-10b", bits: 0, entry: { ipv4: "10.0.0.1/24" } },
  {
    id: "API-11",
    bits: 5,
    entry: { ipv4: "10.0.0.0/30" },
    error: /too narrow subnet: "10.0.0.0\/30"/,
  },
  {
    id: "API-12",
    bits: 5,
    entry: { ipv6: "fd02::/124" },
    error: /too narrow subnet/,
  },
  {
    id: "families swapped",
    bits: 0,
    entry: { ipv4: "fd02::/120" },
    error: /invalid ipv4 subnet/,
  },
];

for (const { id, bits, entry, error } of ENTRIES) {
  const verb = error === undefined ? "accepts" : "rejects";
  Deno.test(`${id}: parseSubnet() ${verb} ${JSON.stringify(entry)}`, () => {
    const parse = () => parseSubnet(entry, { blockSizeBits: bits });
    if (error === undefined) parse();
    else assert.throws(parse, error);
  });
}

Deno.test("parseSubnet() uses the network address of a CIDR with host bits", () => {
  const parsed = parseSubnet({ ipv4: "10.0.0.1/24" }, { blockSizeBits: 0 });
  assert.equal(text(parsed), "10.0.0.0/24");
});

Deno.test("API-13: stackOf() tells IPv4, IPv6 and dual stack apart", () => {
  assert.equal(stackOf(subnet("10.2.0.0/24")), "ipv4");
  assert.equal(stackOf(subnet(undefined, "fd02::/120")), "ipv6");
  assert.equal(stackOf(subnet("10.2.0.0/24", "fd02::/120")), "dual");
  assert.equal(stackOf({}), "none");
});

Deno.test("API-14: subnetEquals() holds for identical subnets", () => {
  for (
    const make of [
      () => subnet("10.2.0.0/24"),
      () => subnet(undefined, "fd02::/120"),
      () => subnet("10.2.0.0/24", "fd02::/120"),
    ]
  ) {
    assert.ok(subnetEquals(make(), make()));
  }
});

Deno.test("API-15: subnetEquals() sees another address or length in either family", () => {
  const base = subnet("10.2.0.0/24", "fd02::/120");
  for (
    const other of [
      subnet("10.3.0.0/24", "fd02::/120"),
      subnet("10.2.0.0/25", "fd02::/120"),
      subnet("10.2.0.0/24", "fd03::/120"),
      subnet("10.2.0.0/24", "fd02::/121"),
    ]
  ) {
    assert.ok(!subnetEquals(base, other), `${text(other)}`);
  }
});

Deno.test("API-16: subnetEquals() sees an extra family on either side", () => {
  const ipv4 = subnet("10.2.0.0/24");
  const ipv6 = subnet(undefined, "fd02::/120");
  const dual = subnet("10.2.0.0/24", "fd02::/120");
  for (const [a, b] of [[ipv4, dual], [dual, ipv4], [ipv6, dual]] as const) {
    assert.ok(!subnetEquals(a, b));
  }
  assert.ok(!subnetEquals(dual, ipv6));
});

const BLOCKS: readonly {
  id: string;
  of: Subnet;
  bits: number;
  index: bigint;
  is: string;
}[] = [
  {
    id: "API-17",
    of: subnet("10.2.0.0/24"),
    bits: 0,
    index: 0n,
    is: "10.2.0.0/32",
  },
  {
    id: "API-17",
    of: subnet("10.2.0.0/24"),
    bits: 0,
    index: 3n,
    is: "10.2.0.3/32",
  },
  {
    id: "API-17",
    of: subnet("10.2.0.0/24"),
    bits: 2,
    index: 3n,
    is: "10.2.0.12/30",
  },
  {
    id: "API-18",
    of: subnet(undefined, "fd02::900:0/116"),
    bits: 0,
    index: 0n,
    is: "fd02::900:0/128",
  },
  {
    id: "API-18",
    of: subnet(undefined, "fd02::900:0/116"),
    bits: 0,
    index: 257n,
    is: "fd02::900:101/128",
  },
  {
    id: "API-18",
    of: subnet(undefined, "fd02::900:0/116"),
    bits: 5,
    index: 10n,
    is: "fd02::900:140/123",
  },
  {
    id: "API-19",
    of: subnet("10.2.0.0/24", "fd02::900:0/120"),
    bits: 5,
    index: 10n,
    is: "10.2.1.64/27 fd02::900:140/123",
  },
];

for (const { id, of, bits, index, is } of BLOCKS) {
  Deno.test(`${id}: subnetBlock() of ${text(of)}: block ${index} of 2^${bits} addresses is ${is}`, () => {
    const block = subnetBlock(of, { blockSizeBits: bits, index });
    assert.equal(text(block), is);
  });
}

Deno.test("blockPrefixes() walks the subnets in order and ends after the last", () => {
  const pool: PoolLayout = {
    blockSizeBits: 1,
    subnets: [
      subnet("10.2.0.0/29", "fd02::200/125"),
      subnet("10.3.0.0/30", "fd02::300/126"),
    ],
  };
  const blocks = Array.from({ length: 7 }, (_, index) => {
    return text(blockPrefixes(pool, index));
  });
  assert.equal(poolCapacity(pool), 6);
  assert.equal(blocks[0], "10.2.0.0/31 fd02::200/127");
  assert.equal(blocks[3], "10.2.0.6/31 fd02::206/127");
  assert.equal(blocks[4], "10.3.0.0/31 fd02::300/127");
  assert.equal(blocks[5], "10.3.0.2/31 fd02::302/127");
  assert.equal(blocks[6], undefined);
});

Deno.test("blockPrefixes() refuses a negative or fractional index", () => {
  const pool: PoolLayout = { blockSizeBits: 0, subnets: [] };
  assert.throws(() => blockPrefixes(pool, -1), RangeError);
  assert.throws(() => blockPrefixes(pool, 0.5), RangeError);
});

Deno.test("poolCapacity() of an IPv6 /48 is limited by the int32 of the index", () => {
  const pool: PoolLayout = {
    blockSizeBits: 5,
    subnets: [subnet(undefined, "fd02::/48")],
  };
  assert.equal(poolCapacity(pool), MAX_BLOCKS);
  assert.equal(subnetCapacity(subnet(undefined, "fd02::/48"), 5), 1n << 75n);
  assert.equal(
    text(blockPrefixes(pool, MAX_BLOCKS - 1)),
    "fd02::f:ffff:ffe0/123",
  );
  assert.equal(blockPrefixes(pool, MAX_BLOCKS), undefined);
});

Deno.test("blockPrefixes() never gives one address to two indices", () => {
  const lengths = fc.integer({ min: 24, max: 30 });
  fc.assert(
    fc.property(
      fc.array(lengths, { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 0, max: 2 }),
      (hosts, blockSizeBits) => {
        const subnets = hosts.map((length, i) =>
          subnet(`10.${i}.0.0/${length}`)
        );
        const pool: PoolLayout = { blockSizeBits, subnets };
        const seen = new Set<string>();
        const capacity = poolCapacity(pool);
        for (let index = 0; index < capacity; index++) {
          const block = blockPrefixes(pool, index)?.ipv4;
          assert.ok(block && subnets.some((s) => s.ipv4?.contains(block)));
          seen.add(block.toString());
        }
        assert.equal(seen.size, capacity);
      },
    ),
    { numRuns: 20 },
  );
});

Deno.test("blockIndexOf() is the inverse of blockPrefixes(), for each address of each family", () => {
  const pool: PoolLayout = {
    blockSizeBits: 2,
    subnets: [
      subnet("10.2.0.0/29", "fd02::/125"),
      subnet("10.4.0.0/30", "fd02::100/126"),
    ],
  };
  const [first, last] = [0n, 3n];
  for (let index = 0; index < 3; index++) {
    for (const prefix of valuesOf(blockPrefixes(pool, index) ?? {})) {
      for (const position of [first, last]) {
        assert.equal(blockIndexOf(pool, prefix.nth(position)), index);
      }
    }
  }
  for (const outside of ["10.1.255.255", "10.2.0.8", "fd02::8", "fd02::104"]) {
    assert.equal(blockIndexOf(pool, Address.parse(outside)), undefined);
  }
  const huge = { blockSizeBits: 0, subnets: [subnet(undefined, "fd02::/64")] };
  const at = (n: bigint) =>
    blockIndexOf(huge, Address.parse("fd02::").offset(n));
  assert.equal(at(BigInt(MAX_BLOCKS) - 1n), MAX_BLOCKS - 1);
  assert.equal(at(BigInt(MAX_BLOCKS)), undefined);
});

Deno.test("poolOf() parses a pool and fills in the default block size", () => {
  const pool = poolOf(poolObject([{ ipv4: "10.2.0.0/24" }]));
  assert.equal(pool.name, "default");
  assert.equal(pool.blockSizeBits, 5);
  assert.equal(pool.finalized, true);
  assert.equal(pool.deleting, false);
});

Deno.test("poolOf() names the pool and the entry it cannot read", () => {
  const object = poolObject([{ ipv4: "10.2.0.0/24" }, { ipv4: "10.3.0.0/30" }]);
  assert.throws(() => poolOf(object), {
    name: "SyntaxError",
    message:
      'Cannot read AddressPool "default": spec.subnets[1]: too narrow subnet: "10.3.0.0/30"',
  });
});

function poolObject(subnets: readonly SubnetSpec[]): AddressPool {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default", uid: "u1", finalizers: ["coil.cybozu.com"] },
    spec: { subnets },
  };
}
