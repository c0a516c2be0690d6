import assert from "node:assert/strict";
import type {
  AddressPoolStatus,
  BlockCounts,
  SubnetSpec,
} from "./address_pool.ts";
import { type Pool, poolOf } from "./pool.ts";
import {
  isPoolStatusNews,
  type PoolAuditReport,
  poolStatus,
  poolStatusEquals,
  unreadablePoolStatus,
} from "./pool_status.ts";

const NOW = new Date("2026-01-02T03:04:05.678Z");
const LATER = new Date("2026-01-02T04:00:00.000Z");

function pool(
  subnets: readonly SubnetSpec[],
  options: { deleting?: boolean; paused?: boolean; bits?: number } = {},
): Pool {
  return poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: {
      name: "default",
      generation: 7,
      ...(options.deleting
        ? { deletionTimestamp: "2026-01-01T00:00:00Z" }
        : {}),
    },
    spec: {
      blockSizeBits: options.bits ?? 2,
      subnets,
      paused: options.paused ?? false,
    },
  });
}

function conditions(status: AddressPoolStatus): string[] {
  return (status.conditions ?? []).map((c) =>
    `${c.type}=${c.status} ${c.reason}: ${c.message}`
  );
}

Deno.test("poolStatus() counts blocks and the addresses of both families", () => {
  const dual = pool([{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]);
  const status = poolStatus(dual, { allocated: [0, 5, 63], now: NOW });
  assert.equal(status.observedGeneration, 7);
  assert.equal(status.blockSize, "4");
  assert.deepEqual(status.blocks, { total: 64, allocated: 3, free: 61 });
  const addresses = { total: "256", allocated: "12", free: "244" };
  assert.deepEqual(status.ipv4, addresses);
  assert.deepEqual(status.ipv6, addresses);
  assert.deepEqual(conditions(status), [
    "Ready=True BlocksAvailable: 61 of 64 blocks are free",
    "CapacityLow=False EnoughBlocksFree: 61 of 64 blocks are free",
  ]);
});

Deno.test("poolStatus() leaves out the family that the pool lacks", () => {
  const status = poolStatus(pool([{ ipv6: "fd02::/120" }]), {
    allocated: [],
    now: NOW,
  });
  assert.equal(status.ipv4, undefined);
  assert.equal(status.ipv6?.total, "256");
});

Deno.test("poolStatus() counts addresses beyond 64 bits exactly", () => {
  const huge = pool([{ ipv6: "fd02::/16" }], { bits: 60 });
  const status = poolStatus(huge, { allocated: [1], now: NOW });
  assert.equal(status.blocks?.total, 2 ** 31);
  assert.equal(status.ipv6?.total, (1n << 91n).toString());
  assert.equal(status.ipv6?.allocated, (1n << 60n).toString());
});

Deno.test("poolStatus() of a pool that mixes families counts each family's own subnets", () => {
  const mixed = pool([
    { ipv4: "10.2.0.0/29" },
    { ipv6: "fd02::/124" },
    { ipv4: "10.3.0.0/29" },
  ]);
  const status = poolStatus(mixed, { allocated: [0, 2, 3, 6], now: NOW });
  assert.deepEqual(status.blocks, { total: 8, allocated: 4, free: 4 });
  assert.deepEqual(status.ipv4, { total: "16", allocated: "8", free: "8" });
  assert.deepEqual(status.ipv6, { total: "16", allocated: "8", free: "8" });
});

Deno.test("poolStatus() ignores blocks with an index that the pool does not have", () => {
  const status = poolStatus(pool([{ ipv4: "10.2.0.0/29" }]), {
    allocated: [0, 2, 1000],
    now: NOW,
  });
  assert.deepEqual(status.blocks, { total: 2, allocated: 1, free: 1 });
});

Deno.test("poolStatus() of an exhausted pool is not ready and says what to do", () => {
  const status = poolStatus(pool([{ ipv4: "10.2.0.0/29" }]), {
    allocated: [0, 1],
    now: NOW,
  });
  assert.deepEqual(conditions(status), [
    "Ready=False Exhausted: All 2 blocks are in use: add a subnet",
    "CapacityLow=True FewBlocksFree: 0 of 2 blocks are free",
  ]);
});

Deno.test("poolStatus() sets CapacityLow below a tenth of free blocks, not at it", () => {
  const low = (blocks: Pool, allocated: number): string | undefined => {
    const indices = Array.from({ length: allocated }, (_, i) => i);
    const status = poolStatus(blocks, { allocated: indices, now: NOW });
    return status.conditions?.[1]?.status;
  };
  const ten = pool([{ ipv4: "10.2.0.0/29" }, { ipv4: "10.3.0.0/27" }]);
  assert.equal(low(ten, 9), "False");
  assert.equal(low(ten, 10), "True");
  const sixteen = pool([{ ipv4: "10.2.0.0/26" }]);
  assert.equal(low(sixteen, 14), "False");
  assert.equal(low(sixteen, 15), "True");
});

Deno.test("poolStatus() keeps CapacityLow until 12 % of the blocks are free", () => {
  const hundred = pool(
    Array.from({ length: 25 }, (_, i) => ({ ipv4: `10.2.${i}.0/28` })),
  );
  let previous: AddressPoolStatus | undefined;
  const lowAt = (free: number) => {
    const allocated = Array.from({ length: 100 - free }, (_, i) => i);
    previous = poolStatus(hundred, { allocated, previous, now: NOW });
    return previous.conditions?.[1]?.status;
  };
  assert.deepEqual([11, 10].map(lowAt), ["False", "False"]);
  assert.deepEqual([9, 10, 11].map(lowAt), ["True", "True", "True"]);
  assert.deepEqual([12, 11, 10].map(lowAt), ["False", "False", "False"]);
  assert.equal(lowAt(9), "True");
});

Deno.test("poolStatus() of a pool being deleted tells how many blocks hold it", () => {
  const subnets = [{ ipv4: "10.2.0.0/29" }];
  const status = poolStatus(pool(subnets, { deleting: true }), {
    allocated: [1],
    now: NOW,
  });
  assert.equal(
    conditions(status)[0],
    "Ready=False Deleting: The pool is being deleted: 1 blocks are still in use; pods get no more addresses of it. Delete its pods: coil ipam show addresses --pool default",
  );
});

Deno.test("poolStatus() says that a pool is paused, with free blocks and without", () => {
  const subnets = [{ ipv4: "10.2.0.0/29" }];
  for (const allocated of [[], [0, 1]]) {
    const paused = pool(subnets, { paused: true });
    const status = poolStatus(paused, { allocated, now: NOW });
    assert.match(conditions(status)[0] ?? "", /^Ready=False Paused: .*spec/);
  }
  const going = pool(subnets, { paused: true, deleting: true });
  const status = poolStatus(going, { allocated: [], now: NOW });
  assert.match(conditions(status)[0] ?? "", /^Ready=False Deleting: /);
});

Deno.test("poolStatus() keeps the transition time until the condition changes", () => {
  const small = pool([{ ipv4: "10.2.0.0/29" }]);
  const first = poolStatus(small, { allocated: [], now: NOW });
  const same = poolStatus(small, {
    allocated: [],
    previous: first,
    now: LATER,
  });
  assert.ok(poolStatusEquals(first, same));
  const full = poolStatus(small, {
    allocated: [0, 1],
    previous: same,
    now: LATER,
  });
  assert.ok(!poolStatusEquals(same, full));
  assert.equal(
    full.conditions?.[0]?.lastTransitionTime,
    "2026-01-02T04:00:00Z",
  );
});

Deno.test("poolStatusEquals() does not depend on the order of fields", () => {
  const a = { blocks: { total: 1, allocated: 0, free: 1 } };
  const b = { blocks: { free: 1, allocated: 0, total: 1 } };
  assert.ok(poolStatusEquals(a, b));
  assert.ok(poolStatusEquals(undefined, {}));
});

Deno.test("unreadablePoolStatus() says why the pool is not ready", () => {
  const status = unreadablePoolStatus({
    message: "spec.subnets[0]: too narrow",
    generation: 3,
    now: NOW,
  });
  assert.deepEqual(conditions(status), [
    "Ready=False InvalidSpec: spec.subnets[0]: too narrow",
  ]);
});

Deno.test("W28: what others have of the pool is not free, and the condition goes with it", () => {
  const v4 = pool([{ ipv4: "10.2.0.0/28" }, { ipv6: "fd02::/124" }]);
  const overlap = {
    taken: [{ first: 1, last: 2 }, { first: 4, last: 4 }],
    message: "somebody has them",
  };
  const status = poolStatus(v4, { allocated: [2, 3], overlap, now: NOW });
  // The one of index 2 exists, though others have addresses of it.
  assert.deepEqual(status.blocks, {
    total: 8,
    allocated: 2,
    free: 4,
    unavailable: 2,
  });
  assert.deepEqual(status.ipv4, { total: "16", allocated: "8", free: "4" });
  assert.deepEqual(status.ipv6, { total: "16", allocated: "0", free: "12" });
  assert.equal(
    conditions(status)[2],
    "Overlapping=True SharedAddresses: somebody has them",
  );
  const after = poolStatus(v4, {
    allocated: [2, 3],
    previous: status,
    now: LATER,
  });
  assert.equal(after.conditions?.length, 2);
  assert.deepEqual(after.blocks, { total: 8, allocated: 2, free: 6 });
});

Deno.test("poolStatus() counts what pods use of blocks that exist, by family, and says it as a text", () => {
  const dual = pool([{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]);
  const used = {
    ipv4: new Map([[0, 4], [5, 2], [9, 1]]),
    ipv6: new Map([[0, 4], [5, 1]]),
    reserved: [],
  };
  const status = poolStatus(dual, { allocated: [0, 5], used, now: NOW });
  assert.equal(status.ipv4?.used, "6", "none of a block that is not there");
  assert.equal(status.ipv6?.used, "5");
  assert.equal(status.usage, "6/256 (2%)", "the family with the larger share");
  const doubled = poolStatus(dual, { allocated: [0, 5, 5], used, now: NOW });
  assert.equal(doubled.ipv4?.used, "6", "of two objects for one block");
});

Deno.test("poolStatus() asks how fast a pool is used up by its blocks with pods of either family, once the pods are known", () => {
  const dual = pool([{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]);
  const allocated = Array.from({ length: 40 }, (_, i) => i);
  const used = {
    ipv4: new Map([[0, 3], [5, 3], [50, 1]]),
    ipv6: new Map([[5, 2], [6, 1]]),
    reserved: [],
  };
  const asked: number[] = [];
  const forecast = ({ free }: BlockCounts, busy: number) => {
    asked.push(free, busy);
    return { blocksPerHour: 12, hoursLeft: 2 };
  };
  const soon = poolStatus(dual, { allocated, used, forecast, now: NOW });
  assert.deepEqual(asked, [24, 3], "none of a block that is not there");
  const isSoon = ({ conditions = [] }: AddressPoolStatus) =>
    conditions.some(({ type }) => type === "UsedUpSoon");
  assert.ok(isSoon(soon));
  const unknown = poolStatus(dual, {
    allocated,
    forecast,
    previous: soon,
    now: LATER,
  });
  assert.equal(asked.length, 2);
  assert.ok(isSoon(unknown), "what was said before stands");
});

Deno.test("poolStatus() keeps what was used as long as the pods are not known", () => {
  const small = pool([{ ipv4: "10.2.0.0/29" }]);
  const unknown = poolStatus(small, { allocated: [0], now: NOW });
  assert.equal(unknown.ipv4?.used, undefined);
  assert.equal(unknown.usage, undefined);
  const used = {
    ipv4: new Map([[0, 3]]),
    ipv6: new Map<number, number>(),
    reserved: [{ address: "10.2.0.1", pod: "team/a", index: 0 }],
  };
  const known = poolStatus(small, { allocated: [0], used, now: NOW });
  const after = poolStatus(small, {
    allocated: [0],
    previous: known,
    now: LATER,
  });
  assert.ok(poolStatusEquals(known, after));
  assert.ok(isPoolStatusNews(unknown, known), "once");
});

Deno.test("poolStatus() names pods that have reserved addresses of its blocks", () => {
  const small = pool([{ ipv4: "10.2.0.0/29" }]);
  const reserved = [7, 1, 2, 3, 4, 0, 5].map((n) => ({
    address: `10.2.0.${n}`,
    pod: `team/p${n}`,
    index: n >> 2,
  }));
  const none = { ipv4: new Map(), ipv6: new Map() };
  const said = (allocated: readonly number[], count: number) =>
    conditions(poolStatus(small, {
      allocated,
      used: { ...none, reserved: reserved.slice(0, count) },
      now: NOW,
    })).slice(2);
  assert.deepEqual(said([0], 1), [], "of no block");
  assert.deepEqual(said([0], 3), [
    "ReservedInUse=True PodsHaveAddresses: Pods have reserved addresses: 10.2.0.1 (team/p1), 10.2.0.2 (team/p2). They keep them until they are deleted",
  ]);
  assert.match(
    said([0, 1], 7).join(),
    /: 10.2.0.0 \(team\/p0\), .* 10.2.0.4 \(team\/p4\) and 2 more\. They/,
  );
});

Deno.test("a pool whose other blocks are all used elsewhere is exhausted, and says so", () => {
  const overlap = { taken: [{ first: 1, last: 3 }], message: "" };
  const v4 = pool([{ ipv4: "10.2.0.0/28" }]);
  const status = poolStatus(v4, { allocated: [0], overlap, now: NOW });
  assert.equal(
    conditions(status)[0],
    "Ready=False Exhausted: 1 of 4 blocks are in use, and addresses of the rest are used elsewhere: add a subnet",
  );
});

Deno.test("isPoolStatusNews() tells conditions, use and another spec from numbers and words", () => {
  const sixteen = pool([{ ipv4: "10.2.0.0/26" }]);
  const at = (used: number, generation?: number) => {
    const allocated = Array.from({ length: used }, (_, i) => i);
    const status = poolStatus(sixteen, { allocated, now: NOW });
    return generation === undefined
      ? status
      : { ...status, observedGeneration: generation };
  };
  const wider = pool([{ ipv4: "10.2.0.0/25" }]);
  for (
    const [what, from, to, isNews] of [
      ["the first", undefined, at(0), true],
      ["nothing", at(3), at(3), false],
      ["numbers, and words of a condition", at(3), at(14), false],
      ["it comes into use", at(0), at(1), true],
      ["it comes out of use", at(1), at(0), true],
      ["CapacityLow", at(14), at(15), true],
      ["the end of CapacityLow", at(15), at(14), true],
      ["numbers of a pool that is low", at(15), at(15), false],
      ["Exhausted", at(15), at(16), true],
      ["another generation", at(3), at(3, 8), true],
      [
        "its size",
        at(3),
        poolStatus(wider, { allocated: [1], now: NOW }),
        true,
      ],
    ] as const
  ) {
    assert.equal(isPoolStatusNews(from, to), isNews, what);
  }
});

Deno.test("poolStatus() says what an audit found until another one finds nothing", () => {
  const small = pool([{ ipv4: "10.2.0.0/24" }]);
  const after = (
    previous: AddressPoolStatus | undefined,
    audit?: PoolAuditReport,
  ) => poolStatus(small, { allocated: [0], previous, audit, now: NOW });
  const inconsistent = (status: AddressPoolStatus) =>
    conditions(status).filter((text) => text.startsWith("Inconsistent"));
  const text = "Inconsistent=True AddressesDoNotFit: two pods have 10.2.0.1";
  const first = after(undefined);
  assert.deepEqual(inconsistent(first), []);
  const found = after(first, { problem: "two pods have 10.2.0.1" });
  assert.deepEqual(inconsistent(found), [text]);
  assert.deepEqual(inconsistent(after(found)), [text], "a new leader");
  assert.deepEqual(inconsistent(after(found, {})), []);
});
