import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { FakeClock } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { KernelRests } from "./rests.ts";

const COOLDOWN_MS = 30_000;

/** The kernel's table, with the age of each entry in seconds. */
class Table {
  readonly ages = new Map<string, number>();
  isBroken = false;
  lists = 0;
  readonly ended: string[][] = [];

  begin(addresses: readonly Address[]): Promise<void> {
    for (const address of addresses) this.ages.set(String(address), 0);
    return Promise.resolve();
  }

  end(addresses: readonly Address[]): Promise<void> {
    this.ended.push(addresses.map(String));
    for (const address of addresses) this.ages.delete(String(address));
    return Promise.resolve();
  }

  list() {
    this.lists++;
    if (this.isBroken) return Promise.reject(new Error("EINTR"));
    const found = [...this.ages].map(([text, seconds]) => (
      { address: Address.parse(text), seconds }
    ));
    return Promise.resolve(found);
  }
}

Deno.test("KernelRests lists what rests still, with how long it has", async () => {
  const table = new Table();
  const rests = new KernelRests(table, { cooldownMs: COOLDOWN_MS });
  await rests.begin({
    ipv4: Address.parse("10.0.1.4"),
    ipv6: Address.parse("fd10::4"),
  });
  table.ages.set("10.0.1.5", 29);
  table.ages.set("10.0.1.6", 30);
  const found = (await rests.list())
    .map(({ address, restedMs }) => [String(address), restedMs]);
  assert.deepEqual(found, [
    ["10.0.1.4", 0],
    ["fd10::4", 0],
    ["10.0.1.5", 29_000],
  ]);
});

Deno.test("KernelRests takes what has rested out of the table, now and then, also after a failure", async () => {
  const lines = loggedLines();
  const table = new Table();
  const clock = new FakeClock();
  const rests = new KernelRests(table, { cooldownMs: COOLDOWN_MS, clock });
  await using tasks = new TaskGroup();
  tasks.run("rests", (signal) => rests.run(signal));
  table.ages.set("10.0.1.4", 10);
  table.ages.set("10.0.1.5", 30);
  table.ages.set("10.0.1.6", 31);
  await clock.advance(14_000);
  assert.deepEqual(table.ended, [], "not at each moment");
  table.isBroken = true;
  await clock.advance(50_000);
  table.isBroken = false;
  assert.match(lines.join("\n"), /retrying/);
  assert.deepEqual(table.ended, []);
  // Some looks, of which the others find nothing.
  await clock.advance(200_000);
  assert.deepEqual(table.ended, [["10.0.1.5", "10.0.1.6"]]);
  assert.deepEqual([...table.ages.keys()], ["10.0.1.4"]);
});

Deno.test("KernelRests leaves the kernel alone while nothing rests, and looks again when something does", async () => {
  const table = new Table();
  const clock = new FakeClock();
  const rests = new KernelRests(table, { cooldownMs: COOLDOWN_MS, clock });
  await using tasks = new TaskGroup();
  tasks.run("rests", (signal) => rests.run(signal));
  table.ages.set("10.0.1.4", 31);
  await clock.advance(600_000);
  assert.deepEqual([table.lists, table.ended.length], [1, 1]);
  await rests.begin({ ipv4: Address.parse("10.0.1.5") });
  await clock.advance(600_000);
  assert.ok(table.lists > 5, `${table.lists} lists`);
  table.ages.set("10.0.1.5", 30);
  await clock.advance(60_000);
  assert.deepEqual(table.ended, [["10.0.1.4"], ["10.0.1.5"]]);
  const { lists } = table;
  await clock.advance(600_000);
  assert.equal(table.lists, lists);
});

Deno.test("KernelRests looks again when something begins to rest during a look", async () => {
  const table = new Table();
  const clock = new FakeClock();
  const rests = new KernelRests({
    begin: (addresses) => table.begin(addresses),
    end: (addresses) => table.end(addresses),
    async list() {
      const seen = await table.list();
      if (table.lists === 1) {
        await rests.begin({ ipv4: Address.parse("10.0.1.5") });
      }
      return seen;
    },
  }, { cooldownMs: COOLDOWN_MS, clock });
  await using tasks = new TaskGroup();
  tasks.run("rests", (signal) => rests.run(signal));
  await clock.advance(120_000);
  assert.ok(table.lists > 1, `${table.lists} lists`);
});
