import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { RestTable } from "../../lib/vpc/mod.ts";
import { routesOf } from "./podnet_testing.ts";
import { netnsTest, tempNetns } from "./testing.ts";

const [A, B, C] = ["10.0.1.98", "10.0.1.99", "2001:db8:1:0:a:0:a00:162"]
  .map(Address.parse) as [Address, Address, Address];

async function ages(table: RestTable): Promise<Record<string, number>> {
  const list = await table.list();
  return Object.fromEntries(
    list.map(({ address, seconds }) => [address.toString(), seconds]),
  );
}

netnsTest(
  "vpc: addresses that rest survive the daemon, in a table that no rule looks up",
  async () => {
    await using host = await tempNetns("rest");
    using hostNetns = Netns.open(host.path);
    let now = 1000.4;
    const open = () => RestTable.open({ hostNetns, uptime: () => now });
    using first = open();
    assert.deepEqual(await ages(first), {});
    await first.begin([A, C]);
    now = 1010.4;
    await first.begin([B]);
    assert.deepEqual(await routesOf(host, 120), [
      "blackhole 10.0.1.98 proto 30 metric 1001",
      "blackhole 10.0.1.99 proto 30 metric 1011",
      `blackhole ${C} dev lo proto 30 metric 1001 pref medium`,
    ]);
    now = 1020.5;
    using second = open();
    // At most what it was: the begin is rounded up.
    assert.deepEqual(await ages(second), {
      [String(A)]: 19.5,
      [String(C)]: 19.5,
      [String(B)]: 9.5,
    });
    await second.end([A, B]);
    await second.end([A]);
    assert.deepEqual(await ages(second), { [String(C)]: 19.5 });
    assert.deepEqual(await ages(first), { [String(C)]: 19.5 });
  },
);

netnsTest(
  "vpc: a rest that begins again counts from then, and ends as a whole",
  async () => {
    await using host = await tempNetns("rest");
    using hostNetns = Netns.open(host.path);
    let now = 500;
    using table = RestTable.open({ hostNetns, uptime: () => now });
    await table.begin([A, B]);
    await table.begin([A]);
    now = 520;
    await table.begin([A]);
    assert.deepEqual(await ages(table), { [String(A)]: 0, [String(B)]: 20 });
    await table.end([A]);
    assert.deepEqual(await ages(table), { [String(B)]: 20 });
    // A clock that was set back: it rests from now on.
    now = 100;
    assert.deepEqual(await ages(table), { [String(B)]: 0 });
  },
);

netnsTest("vpc: other programs' routes in the table are no rest", async () => {
  await using host = await tempNetns("rest");
  using hostNetns = Netns.open(host.path);
  using table = RestTable.open({ hostNetns });
  await host.ip(
    "route",
    "add",
    "blackhole",
    `${A}`,
    "table",
    "120",
    "metric",
    "5",
  );
  await host.ip(
    "route",
    "add",
    `${B}`,
    "dev",
    "lo",
    "table",
    "120",
    "proto",
    "30",
  );
  assert.deepEqual(await ages(table), {});
  await table.end([A, B]);
  assert.equal((await routesOf(host, 120)).length, 2);
});

netnsTest(
  "vpc: the clock is that of the machine, to less than a second",
  async () => {
    await using host = await tempNetns("rest");
    using hostNetns = Netns.open(host.path);
    using table = RestTable.open({ hostNetns });
    const before = parseFloat(await Deno.readTextFile("/proc/uptime"));
    await table.begin([A]);
    const [route] = await routesOf(host, 120);
    const metric = Number(/metric (\d+)/.exec(route ?? "")?.[1]);
    const after = parseFloat(await Deno.readTextFile("/proc/uptime"));
    assert.ok(
      metric >= before && metric <= after + 1,
      `${metric} of ${before}`,
    );
  },
);
