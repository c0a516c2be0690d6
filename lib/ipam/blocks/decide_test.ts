import assert from "node:assert/strict";
import { parseReserved } from "../../api/mod.ts";
import { Backoff } from "../../async/mod.ts";
import { Address, Prefix } from "../../inet/mod.ts";
import type { PoolState, Stock } from "../base/ports.ts";
import { AddressTable } from "../table/address_table.ts";
import { decide, type PoolStateSince, type Situation } from "./decide.ts";
import type { HeldBlock } from "../table/held_block.ts";
import { DEFAULT_WATER_MARKS, waterStock } from "./stock.ts";

/** Blocks of eight addresses: the marks are 2 and 4. */
class World {
  readonly table = new AddressTable({
    cooldownMs: 0,
    reservedOf: () => parseReserved(this.reserved),
  });
  reserved: string[] = [];
  readonly flying = new Set<HeldBlock>();
  nowMs = 1_000_000;
  state: PoolState = "ready";
  waiting = 0;
  pausedUntilMs = 0;
  returnDelayMs = 30_000;
  ampleReturnDelayMs: number | undefined;
  jitter = 0.5;
  stock: Stock = waterStock(DEFAULT_WATER_MARKS);
  readonly states = new Map<string, PoolStateSince>();
  /** How many neighbours go back together; 0: none. */
  groupsOf = 0;

  block(index: number): HeldBlock {
    return this.table.addBlock({
      name: `default-${index}`,
      pool: "default",
      uid: `u${index}`,
      index,
      prefixes: { ipv4: Prefix.parse(`10.0.${index}.0/29`) },
      reserved: false,
      deleting: false,
    }, this.nowMs);
  }

  /** The pool has this state since so long ago. */
  become(state: PoolState, forMs = 0): void {
    this.state = state;
    this.states.set("default", { state, since: this.nowMs - forMs });
  }

  /** Gives so many addresses to pods. */
  pods(count: number): void {
    const first = this.table.attachments.size;
    for (let n = first; n < first + count; n++) {
      const pod = { containerId: `c${n}`, ifname: "eth0", pool: "default" };
      assert.ok(this.table.assign(pod, { now: this.nowMs }), "no room");
    }
  }

  /** A pod that the kernel shows with an address. */
  found(address: string): void {
    const addresses = { ipv4: Address.parse(address) };
    const key = { containerId: `found-${address}`, ifname: "eth0" };
    this.table.register({ ...key, pool: "default", addresses }, this.nowMs);
  }

  situation(): Situation {
    return {
      now: this.nowMs,
      source: {
        poolState: () => this.state,
        releaseGroup: ({ index, uid }) =>
          this.groupsOf === 0 ? uid : `${Math.floor(index / this.groupsOf)}`,
      },
      supply: {
        waiting: () => this.waiting,
        pausedUntil: () => this.pausedUntilMs,
      },
      stock: this.stock,
      returnDelayMs: this.returnDelayMs,
      ampleReturnDelayMs: this.ampleReturnDelayMs ?? this.returnDelayMs,
      states: this.states,
      jitterOf: () => this.jitter,
      flying: this.flying,
    };
  }

  /** The calls that give blocks back. */
  calls() {
    return decide(this.table, this.situation()).giveBack
      .map((blocks) => blocks.map(({ info }) => info.index));
  }

  decide() {
    const { fetch, retire, giveBack, keep, dueAt } = decide(
      this.table,
      this.situation(),
    );
    const names = (blocks: readonly HeldBlock[]) =>
      blocks.map(({ info }) => info.index);
    return {
      fetch,
      retire: names(retire),
      giveBack: names(giveBack.flat()),
      keep: names(keep),
      inMs: dueAt - this.nowMs,
    };
  }
}

const NOTHING = {
  fetch: [],
  retire: [],
  giveBack: [],
  keep: [],
  inMs: Infinity,
};

Deno.test("decide() asks for a block below the low-water mark of a pool in use", () => {
  const world = new World();
  world.block(0);
  world.pods(6);
  assert.deepEqual(world.decide(), NOTHING);
  world.pods(1);
  assert.deepEqual(world.decide(), { ...NOTHING, fetch: ["default"] });
  world.pausedUntilMs = world.nowMs + 5_000;
  assert.deepEqual(world.decide(), { ...NOTHING, inMs: 5_000 });
  world.pausedUntilMs = 0;
  for (const state of ["absent", "deleting", "paused"] as const) {
    world.state = state;
    assert.deepEqual(world.decide(), NOTHING, state);
  }
});

Deno.test("decide() takes a pool for which somebody waits as in use", () => {
  const world = new World();
  world.block(0).holds.add("reserved");
  assert.deepEqual(world.decide(), NOTHING);
  world.waiting = 1;
  assert.deepEqual(world.decide(), { ...NOTHING, fetch: ["default"] });
});

Deno.test("decide() gives back what has been empty long enough, the highest first, and keeps the high-water mark", () => {
  const world = new World();
  for (const index of [0, 1, 2]) world.block(index);
  world.pods(1);
  assert.deepEqual(world.decide(), { ...NOTHING, inMs: 30_000 });
  world.nowMs += 30_000;
  // Seven are free in the first block: more than the mark.
  const both = { ...NOTHING, retire: [2, 1], giveBack: [2, 1] };
  assert.deepEqual(world.decide(), both);
  // Three are: one block stays.
  world.pods(4);
  assert.deepEqual(world.decide(), { ...NOTHING, retire: [2], giveBack: [2] });
});

Deno.test("decide() lets those who wait keep all blocks, but what is being deleted or was edited", () => {
  const world = new World();
  for (const index of [0, 1, 2]) world.block(index);
  world.nowMs += 30_000;
  world.waiting = 1;
  assert.deepEqual(world.decide(), NOTHING);
  world.table.blocks.get("u1")?.holds.add("edited");
  assert.deepEqual(world.decide(), { ...NOTHING, retire: [1], giveBack: [1] });
  world.state = "deleting";
  assert.deepEqual(world.decide().retire, [2, 1, 0]);
});

Deno.test("decide() gives back a block of which all is reserved, however scarce blocks are", () => {
  const world = new World();
  world.reserved = ["10.0.1.0/29", "10.0.2.0-10.0.2.6"];
  for (const index of [0, 1, 2]) world.block(index);
  world.nowMs += 30_000;
  world.waiting = 1;
  assert.deepEqual(world.decide(), { ...NOTHING, retire: [1], giveBack: [1] });
});

Deno.test("decide() keeps an empty block that may not go", () => {
  for (
    const hold of [
      "reserved",
      "overlapping",
      "unexported",
      "unconfirmed",
    ] as const
  ) {
    const world = new World();
    world.block(0).holds.add(hold);
    world.nowMs += 30_000;
    assert.deepEqual(world.decide(), NOTHING, hold);
  }
});

Deno.test("decide() has eight returns under way at most", () => {
  const world = new World();
  for (let index = 0; index < 10; index++) {
    const block = world.block(index);
    if (index < 3) world.flying.add(block);
    if (index < 3) block.holds.add("returning");
  }
  world.nowMs += 30_000;
  const { retire, giveBack } = world.decide();
  assert.deepEqual(retire, [9, 8, 7, 6, 5, 4, 3]);
  assert.deepEqual(giveBack, [9, 8, 7, 6, 5]);
});

Deno.test("decide() tries a return again when it is time", () => {
  const world = new World();
  const block = world.block(0);
  block.holds.add("returning");
  const backoff = new Backoff({ initialMs: 1, maxMs: 1 });
  const retryAt = world.nowMs + 700;
  block.giveBack = { backoff, retryAt, asked: true };
  assert.deepEqual(world.decide(), { ...NOTHING, inMs: 700 });
  world.nowMs += 700;
  assert.deepEqual(world.decide(), { ...NOTHING, giveBack: [0] });
});

Deno.test("decide() keeps a block in which a pod turned up, unless the API server has been asked", () => {
  const world = new World();
  const block = world.block(0);
  block.holds.add("returning");
  world.found("10.0.0.3");
  // The pool is in use again, and nothing is given out of this block.
  const fetch = ["default"];
  assert.deepEqual(world.decide(), { ...NOTHING, fetch, keep: [0] });
  const backoff = new Backoff({ initialMs: 1, maxMs: 1 });
  block.giveBack = { backoff, retryAt: 0, asked: true };
  assert.deepEqual(world.decide(), { ...NOTHING, fetch });
});

for (
  const [what, { delayMs = 3_600_000, jitter = 0.5, lowForMs }, inMs] of [
    ["after its delay", {}, 3_600_000],
    ["sooner than others", { jitter: 0 }, 1_800_000],
    ["later than others", { jitter: 0.75 }, 4_500_000],
    ["within 30 s while the pool is low", { lowForMs: 900_000 }, 22_500],
    ["sooner than others then", { jitter: 0, lowForMs: 900_000 }, 15_000],
    ["later than others then", { jitter: 0.9, lowForMs: 900_000 }, 28_500],
    ["not later for that", { delayMs: 10_000, lowForMs: 900_000 }, 7_500],
    ["within 30 s when the pool has just become low", { lowForMs: 0 }, 22_500],
  ] as const
) {
  Deno.test(`decide() gives a block back ${what}`, () => {
    const world = new World();
    world.block(0);
    world.returnDelayMs = delayMs;
    world.jitter = jitter;
    if (lowForMs !== undefined) world.become("low", lowForMs);
    const waits = world.decide();
    assert.deepEqual([waits.retire, waits.inMs], [[], inMs]);
    world.nowMs += inMs;
    assert.deepEqual(world.decide().retire, [0]);
  });
}

Deno.test("decide() spreads the return of blocks that have been empty for long when their pool becomes low", () => {
  for (const jitter of [0, 0.25, 0.9]) {
    const world = new World();
    world.block(0);
    world.returnDelayMs = 3_600_000;
    world.jitter = jitter;
    world.nowMs += 600_000;
    world.become("low");
    const { retire, inMs } = world.decide();
    if (jitter === 0) assert.deepEqual(retire, [0]);
    else assert.deepEqual([retire, inMs], [[], 30_000 * jitter]);
  }
});

Deno.test("decide() gives all empty blocks of a paused pool back, also those that it would keep, not all at once", () => {
  for (const jitter of [0, 0.25, 0.9]) {
    const world = new World();
    world.stock = CONSTANT;
    for (const index of [0, 1]) world.block(index);
    world.returnDelayMs = HOUR;
    world.jitter = jitter;
    world.nowMs += 2 * HOUR;
    assert.deepEqual(world.decide().retire, []);
    world.become("paused");
    if (jitter > 0) {
      assert.deepEqual(world.decide(), { ...NOTHING, inMs: 60_000 * jitter });
    }
    world.nowMs += 60_000 * jitter;
    assert.deepEqual(world.decide().retire, [1, 0]);
  }
});

for (
  const [jitter, delayMs, inMs] of [
    [0, 3_600_000, 0],
    [0.25, 3_600_000, 15_000],
    [0.9, 3_600_000, 54_000],
    [0.9, 10_000, 9_000],
  ] as const
) {
  Deno.test(`decide() gives a block that becomes empty in a paused pool back after ${inMs} ms with jitter ${jitter} and a delay of ${delayMs} ms`, () => {
    const world = new World();
    world.block(0);
    world.returnDelayMs = delayMs;
    world.jitter = jitter;
    world.become("paused", HOUR);
    if (inMs > 0) assert.deepEqual(world.decide(), { ...NOTHING, inMs });
    world.nowMs += inMs;
    assert.deepEqual(world.decide().retire, [0]);
  });
}

const HOUR = 3_600_000;

/** A block that has been empty for so long, of a pool that is ample. */
function ampleWorld({ emptyMs, jitter }: {
  readonly emptyMs: number;
  readonly jitter: number;
}): World {
  const world = new World();
  world.block(0);
  world.returnDelayMs = HOUR;
  world.ampleReturnDelayMs = 4 * HOUR;
  world.jitter = jitter;
  world.become("ample");
  world.nowMs += emptyMs;
  return world;
}

for (
  const [jitter, inMs] of [
    [0, 2 * HOUR],
    [0.5, 4 * HOUR],
    [0.75, 5 * HOUR],
  ] as const
) {
  Deno.test(`decide() lets a block of an ample pool stay for ${inMs} ms with jitter ${jitter}`, () => {
    const world = ampleWorld({ emptyMs: inMs - 1, jitter });
    assert.deepEqual(world.decide(), { ...NOTHING, inMs: 1 });
    world.nowMs++;
    assert.deepEqual(world.decide().retire, [0]);
  });
}

for (
  const [what, { emptyMs, jitter, state }, inMs] of [
    ["as others of it when it was empty for a moment only", {
      emptyMs: HOUR / 10,
      jitter: 0.5,
      state: "ready",
    }, 0.9 * HOUR],
    ["within an hour, not at once", {
      emptyMs: 3 * HOUR,
      jitter: 0.7,
      state: "ready",
    }, 0.7 * HOUR],
    ["not later than while it was ample", {
      emptyMs: 3.9 * HOUR,
      jitter: 0.5,
      state: "ready",
    }, 0.1 * HOUR],
    ["within 30 s, not at once, when it is low", {
      emptyMs: 3 * HOUR,
      jitter: 0.7,
      state: "low",
    }, 21_000],
  ] as const
) {
  Deno.test(`decide() gives a block of a pool that was ample back ${what}`, () => {
    const world = ampleWorld({ emptyMs, jitter });
    world.become(state);
    assert.deepEqual(world.decide(), { ...NOTHING, inMs });
    world.nowMs += inMs;
    assert.deepEqual(world.decide().retire, [0]);
  });
}

/** Eight free addresses always, twice as many at most, with or without pods. */
const CONSTANT: Stock = {
  pools: ["default"],
  short: ({ free }) => 8 - free,
  isSpare: ({ freeCount }, { free }) => free - freeCount >= 16,
};

Deno.test("decide() fills a store that is kept without a pod and a block, and empties it to what it wants", () => {
  const world = new World();
  world.stock = CONSTANT;
  assert.deepEqual(world.decide(), { ...NOTHING, fetch: ["default"] });
  for (const index of [0, 1, 2, 3]) world.block(index);
  world.nowMs += 30_000;
  assert.deepEqual(world.decide(), {
    ...NOTHING,
    retire: [3, 2],
    giveBack: [3, 2],
  });
});

Deno.test("decide() gives blocks of a group back by one call, one at a time, and eight calls at most", () => {
  const world = new World();
  world.groupsOf = 3;
  for (let index = 0; index < 36; index++) world.block(index);
  world.nowMs += 30_000;
  const calls = world.calls();
  assert.deepEqual(calls.slice(0, 2), [[35, 34, 33], [32, 31, 30]]);
  assert.equal(calls.length, 8);
  const [flying] = world.table.blocksOf("default").empty.slice(-1);
  assert.ok(flying);
  flying.holds.add("returning");
  world.flying.add(flying);
  assert.deepEqual(world.calls()[0], [32, 31, 30]);
  assert.equal(world.calls().length, 7);
});

Deno.test("decide() gives a block that is reserved as a whole back soon, however long others stay", () => {
  const world = new World();
  world.returnDelayMs = 3_600_000;
  world.block(0);
  world.pods(1);
  world.block(1);
  assert.deepEqual(world.decide(), { ...NOTHING, inMs: 3_600_000 });
  world.reserved = ["10.0.1.0/29"];
  world.table.reserve();
  assert.deepEqual(world.decide(), { ...NOTHING, inMs: 30_000 });
  world.nowMs += 30_000;
  assert.deepEqual(world.decide(), { ...NOTHING, retire: [1], giveBack: [1] });
});
