import assert from "node:assert/strict";
import { FakeClock } from "../../../lib/async/testing.ts";
import { Growth } from "./growth.ts";

const MINUTE_MS = 60_000;

/** A pool of 100 blocks by a clock that is turned. */
class Site {
  readonly clock = new FakeClock();
  readonly #growth = new Growth({ clock: this.clock });

  note(allocated: number, busy: number = allocated) {
    const blocks = { total: 100, allocated, free: 100 - allocated };
    return this.#growth.note("p", blocks, busy);
  }

  /** Notes the pool every five minutes; returns the last forecast. */
  async pass(hours: number, allocatedAfter: (hours: number) => number) {
    let forecast;
    for (let minutes = 5; minutes <= hours * 60; minutes += 5) {
      await this.clock.advance(5 * MINUTE_MS);
      forecast = this.note(allocatedAfter(minutes / 60));
    }
    return forecast;
  }

  drop(): void {
    this.#growth.drop("p");
  }
}

Deno.test("Growth says nothing for an hour, then what is left at this rate", async () => {
  const site = new Site();
  assert.equal(site.note(10), undefined);
  await site.clock.advance(59 * MINUTE_MS);
  assert.equal(site.note(14), undefined);
  await site.clock.advance(MINUTE_MS);
  assert.deepEqual(site.note(14), { blocksPerHour: 4, hoursLeft: 21.5 });
});

Deno.test("Growth goes by the last six hours", async () => {
  const site = new Site();
  site.note(0);
  const steady = await site.pass(10, (hours) => 5 * hours);
  assert.deepEqual(steady, { blocksPerHour: 5, hoursLeft: 10 });
  const half = await site.pass(3, () => 50);
  assert.deepEqual(half, { blocksPerHour: 2.5, hoursLeft: 20 });
  const idle = await site.pass(3, () => 50);
  assert.deepEqual(idle, { blocksPerHour: 0, hoursLeft: undefined });
  const shrinking = await site.pass(2, () => 44);
  assert.deepEqual(shrinking, { blocksPerHour: -1, hoursLeft: undefined });
});

Deno.test("Growth does not count blocks that nodes keep, and those that get pods again", async () => {
  const site = new Site();
  site.note(40, 30);
  await site.clock.advance(120 * MINUTE_MS);
  const kept = { blocksPerHour: 0, hoursLeft: undefined };
  assert.deepEqual(site.note(60, 30), kept, "nodes keep more");
  assert.deepEqual(site.note(40, 40), kept, "pods come back");
  assert.deepEqual(site.note(60, 36), { blocksPerHour: 4, hoursLeft: 10 });
  assert.deepEqual(site.note(44, 40), { blocksPerHour: 2, hoursLeft: 28 });
  assert.equal(site.note(60, 28)?.hoursLeft, undefined, "pods go");
});

Deno.test("Growth counts the block that each node has in store, also of a pool without pods before", async () => {
  const stored = new Site();
  stored.note(20, 10);
  await stored.clock.advance(120 * MINUTE_MS);
  const grown = { blocksPerHour: 10, hoursLeft: 6 };
  assert.deepEqual(stored.note(40, 20), grown);
  const empty = new Site();
  empty.note(20, 0);
  await empty.clock.advance(120 * MINUTE_MS);
  assert.deepEqual(empty.note(40, 20), grown);
  assert.equal(empty.note(40, 0)?.blocksPerHour, 0);
});

Deno.test("Growth does not mind how often it is asked, and forgets a pool that is gone", async () => {
  const site = new Site();
  site.note(0);
  for (let minute = 1; minute <= 120; minute++) {
    await site.clock.advance(MINUTE_MS);
    site.note(minute / 6);
    site.note(minute / 6);
  }
  assert.deepEqual(site.note(20), { blocksPerHour: 10, hoursLeft: 8 });
  site.drop();
  assert.equal(site.note(20), undefined);
});
