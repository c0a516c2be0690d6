import assert from "node:assert/strict";
import fc from "fast-check";
import {
  blockPrefixes,
  type Pool,
  poolCapacity,
  poolOf,
} from "../../api/mod.ts";
import { type DualStack, FAMILIES, Prefix } from "../../inet/mod.ts";
import { Overlaps } from "./overlaps.ts";
import { PoolIndex } from "./index.ts";

function poolNamed(
  name: string,
  blockSizeBits: number,
  subnets: readonly { ipv4?: string; ipv6?: string }[],
): Pool {
  return poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name, uid: `uid-of-${name}` },
    spec: { blockSizeBits, subnets },
  });
}

function open(...pools: readonly Pool[]) {
  const used = new Map(pools.map(({ name }) => [name, new PoolIndex()]));
  const overlaps = new Overlaps((name) => used.get(name));
  for (const pool of pools) overlaps.set(pool);
  const use = (pool: string, ...indices: readonly number[]) =>
    indices.forEach((index) => used.get(pool)?.add(index));
  const taken = (pool: string) =>
    overlaps.of(pool)?.taken.map(({ first, last }) => `${first}-${last}`);
  return { overlaps, used, use, taken };
}

Deno.test("W28: pools of the same subnet block each other's indices", () => {
  const { overlaps, use, taken } = open(
    poolNamed("a", 2, [{ ipv4: "10.9.0.0/30" }, { ipv4: "10.0.0.0/24" }]),
    poolNamed("b", 4, [{ ipv4: "10.0.0.0/24" }]),
  );
  assert.deepEqual(taken("a"), []);
  use("b", 0, 1, 3);
  assert.deepEqual(taken("a"), ["1-8", "13-16"]);
  assert.equal(overlaps.blocked("a", 0), undefined);
  assert.equal(overlaps.blocked("a", 1), 9, "past both blocks of the run");
  assert.equal(overlaps.blocked("a", 9), undefined);
  use("a", 9);
  assert.deepEqual(taken("b"), ["2-2"]);
  assert.equal(overlaps.blocked("b", 2), 3);
  assert.deepEqual(overlaps.neighbours("a"), ["b"]);
});

Deno.test("a pool that has a subnet twice is no neighbour of itself", () => {
  const { overlaps, use, taken } = open(
    poolNamed("a", 0, [{ ipv4: "10.0.0.0/31" }, { ipv4: "10.0.0.0/31" }]),
  );
  use("a", 1);
  assert.deepEqual(taken("a"), ["3-3"]);
  assert.deepEqual(overlaps.neighbours("a"), []);
});

Deno.test("a pool whose subnets or block size change shares what it has now", () => {
  const { overlaps, use, taken } = open(
    poolNamed("a", 4, [{ ipv4: "10.9.0.0/24" }]),
    poolNamed("b", 4, [{ ipv4: "10.0.0.0/24" }]),
  );
  use("a", 0);
  assert.equal(taken("b"), undefined);
  overlaps.set(poolNamed("b", 4, [{ ipv4: "10.9.0.0/24" }]));
  assert.deepEqual(taken("b"), ["0-0"]);
  overlaps.set(poolNamed("b", 3, [{ ipv4: "10.9.0.0/24" }]));
  assert.deepEqual(taken("b"), ["0-1"]);
});

Deno.test("blocks of one size are passed over together, up to the end", () => {
  const subnets = [{ ipv4: "10.0.0.0/29" }];
  const { overlaps, use } = open(
    poolNamed("a", 0, subnets),
    poolNamed("b", 0, subnets),
  );
  use("b", 1, 2, 3);
  assert.equal(overlaps.blocked("a", 1), 4);
  use("b", 4, 5, 6, 7);
  assert.equal(overlaps.blocked("a", 1), 8);
});

Deno.test("the block right behind the most that a pool can have is none of it", () => {
  const { use, taken } = open(
    poolNamed("full", 0, [{ ipv6: "fd00::/97" }, { ipv6: "fd01::/97" }]),
    poolNamed("over", 0, [{ ipv6: "fd02::/128" }, { ipv6: "fd03::/97" }]),
    poolNamed("one", 0, [{ ipv6: "fd01::/97" }]),
    poolNamed("three", 0, [{ ipv6: "fd03::/97" }]),
  );
  assert.equal(taken("full"), undefined);
  use("three", 2 ** 31 - 1);
  assert.deepEqual(taken("over"), []);
  use("three", 2 ** 31 - 2);
  assert.deepEqual(taken("over"), ["2147483647-2147483647"]);
});

Deno.test("addresses beyond the most blocks that a pool can have are none of it", () => {
  const small = [{ ipv6: "fd00::/64" }, { ipv6: "fd01::/64" }];
  const { overlaps, use, taken } = open(
    poolNamed("small", 0, small),
    poolNamed("large", 40, [{ ipv6: "fd00::/64" }]),
    poolNamed("beyond", 0, [{ ipv6: "fd01::/64" }]),
  );
  use("large", 1);
  assert.deepEqual(taken("small"), []);
  use("small", 0, 2 ** 31 - 1);
  assert.deepEqual(taken("large"), ["0-0"]);
  assert.equal(overlaps.blocked("large", 1), undefined);
  assert.deepEqual(overlaps.neighbours("small"), ["large"]);
  use("large", 0);
  assert.deepEqual(taken("small"), [`0-${2 ** 31 - 1}`]);
});

Deno.test("pools with nothing in common say nothing, and a pool that is gone neither", () => {
  const b = poolNamed("b", 0, [{ ipv4: "10.0.0.0/28" }]);
  const { overlaps, taken } = open(
    poolNamed("a", 0, [{ ipv4: "10.0.0.0/24" }]),
    poolNamed("c", 0, [{ ipv4: "10.1.0.0/24" }]),
  );
  assert.equal(taken("a"), undefined);
  overlaps.set(b);
  assert.equal(taken("c"), undefined);
  assert.deepEqual(
    overlaps.of("a")?.subnets.map(({ pool, subnet }) => `${pool} ${subnet}`),
    ["b 10.0.0.0/28"],
  );
  overlaps.drop("b");
  assert.equal(taken("a"), undefined);
});

Deno.test("a block elsewhere than its index says blocks what it covers", () => {
  const { overlaps, taken } = open(
    poolNamed("a", 2, [{ ipv4: "10.0.0.0/24" }, { ipv4: "10.3.0.0/24" }]),
  );
  const at = (prefix: string) => ({ ipv4: Prefix.parse(prefix) });
  assert.deepEqual(overlaps.setMisplaced("v1-0", at("10.3.0.0/29")), ["a"]);
  assert.deepEqual(overlaps.setMisplaced("v1-0", at("10.3.0.0/29")), []);
  assert.deepEqual(overlaps.setMisplaced("far", at("10.4.0.0/29")), []);
  assert.deepEqual(taken("a"), ["64-65"]);
  assert.deepEqual(overlaps.of("a")?.misplaced, ["v1-0"]);
  assert.equal(overlaps.blocked("a", 63), undefined);
  assert.equal(overlaps.blocked("a", 64), 66);
  assert.equal(overlaps.blocked("a", 65), 66, "the last one is covered, too");
  assert.equal(overlaps.blocked("a", 66), undefined);
  assert.deepEqual(overlaps.setMisplaced("v1-0", undefined), ["a"]);
  assert.equal(taken("a"), undefined);
  assert.equal(overlaps.of("unknown"), undefined);
  assert.equal(overlaps.blocked("unknown", 0), undefined);
});

Deno.test("indices are exact for any pools: compared address by address", () => {
  const subnet = fc.record({
    start: fc.integer({ min: 0, max: 7 }),
    start6: fc.integer({ min: 0, max: 7 }),
    hostBits: fc.integer({ min: 3, max: 5 }),
    stack: fc.constantFrom("ipv4", "ipv6", "dual"),
  });
  const pool = fc.record({
    bits: fc.integer({ min: 0, max: 3 }),
    subnets: fc.array(subnet, { minLength: 1, maxLength: 3 }),
    used: fc.array(fc.nat({ max: 40 }), { maxLength: 6 }),
  });
  type Drawn = {
    start: number;
    start6: number;
    hostBits: number;
    stack: string;
  };
  const specOf = ({ start, start6, hostBits, stack }: Drawn) => ({
    ...(stack === "ipv6"
      ? {}
      : { ipv4: `10.0.0.${start * 8}/${32 - hostBits}` }),
    ...(stack === "ipv4"
      ? {}
      : { ipv6: `fd00::${(start6 * 8).toString(16)}/${128 - hostBits}` }),
  });
  const drawn = fc.array(pool, { minLength: 1, maxLength: 3 });
  fc.assert(fc.property(drawn, (draws) => {
    const pools = draws.map(({ bits, subnets }, i) =>
      poolNamed(`p${i}`, bits, subnets.map(specOf))
    );
    const { overlaps, used } = open(...pools);
    const held: { pool: string; index: number; at: DualStack<Prefix> }[] = [];
    for (const [i, p] of pools.entries()) {
      for (const index of new Set(draws[i]?.used)) {
        const at = blockPrefixes(p, index);
        if (at === undefined) continue;
        used.get(p.name)?.add(index);
        held.push({ pool: p.name, index, at });
      }
    }
    for (const p of pools) {
      const spans = overlaps.of(p.name)?.taken ?? [];
      const isTaken = (index: number) =>
        held.some((h) =>
          (h.pool !== p.name || h.index !== index) &&
          meet(h.at, blockPrefixes(p, index) ?? {})
        );
      for (let index = 0; index < poolCapacity(p); index++) {
        const expected = isTaken(index);
        assert.equal(
          spans.some(({ first, last }) => first <= index && index <= last),
          expected,
        );
        const next = overlaps.blocked(p.name, index);
        assert.equal(next !== undefined, expected);
        for (let skipped = index; skipped < (next ?? 0); skipped++) {
          assert.ok(isTaken(skipped) || skipped >= poolCapacity(p));
        }
      }
    }
  }));
});

function meet(a: DualStack<Prefix>, b: DualStack<Prefix>): boolean {
  return FAMILIES.some((family) => {
    const [x, y] = [a[family], b[family]];
    return x !== undefined && y?.overlaps(x) === true;
  });
}
