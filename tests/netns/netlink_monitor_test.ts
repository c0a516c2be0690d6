import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { Netns, writeSysctl } from "../../lib/linux/mod.ts";
import {
  type MonitorInterests,
  type Notification,
  routeAdd,
  routeDelete,
  RouteMonitor,
  RouteSocket,
  ruleAdd,
} from "../../lib/netlink/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";

const ALL: MonitorInterests = {
  rules: true,
  routes: [{ table: 116 }, { table: 30_119 }],
  links: ["down"],
  addresses: "gone",
  forwarding: true,
};

/** What comes until something is of this kind; fails when that takes too long. */
async function until(
  monitor: RouteMonitor,
  kind: Notification["kind"],
): Promise<Notification[]> {
  const signal = AbortSignal.timeout(60_000);
  const found: Notification[] = [];
  while (!found.some((each) => each.kind === kind)) {
    found.push(...await monitor.next({ signal }));
  }
  return found;
}

netnsTest(
  "RouteMonitor tells what others change, and nothing else",
  async () => {
    await using host = await tempNetns("mon");
    using netns = Netns.open(host.path);
    await using monitor = RouteMonitor.open({ netns, interests: ALL });

    // New links, links set up, other tables: of no interest.
    await host.ip("link", "add", "d0", "type", "bridge");
    await host.ip("address", "add", "10.9.0.1/24", "dev", "d0");
    await host.ip("link", "set", "d0", "mtu", "1400");
    await host.ip("link", "set", "d0", "up");
    await host.ip("route", "add", "10.8.0.0/24", "dev", "d0", "table", "200");
    await host.ip("rule", "add", "pref", "2000", "lookup", "116");
    assert.deepEqual(await until(monitor, "rule"), [
      { kind: "rule", family: "ipv4" },
    ]);

    await host.ip("-6", "rule", "add", "pref", "2000", "lookup", "116");
    assert.deepEqual(await until(monitor, "rule"), [
      { kind: "rule", family: "ipv6" },
    ]);

    for (const table of ["116", "30119"]) {
      await host.ip("route", "add", "10.8.1.0/24", "dev", "d0", "table", table);
      assert.deepEqual(await until(monitor, "route"), [
        { kind: "route", table: Number(table) },
      ]);
      await host.ip("route", "flush", "table", table);
      assert.deepEqual(await until(monitor, "route"), [
        { kind: "route", table: Number(table) },
      ]);
    }

    const [{ ifindex: index } = {}] = await host.ipJson("link", "show", "d0");
    await host.ip("address", "del", "10.9.0.1/24", "dev", "d0");
    assert.deepEqual(await until(monitor, "address"), [
      { kind: "address", index },
    ]);
    await host.ip("link", "set", "d0", "down");
    const found = await until(monitor, "link");
    assert.ok(found.some((one) => one.kind === "link" && one.index === index));

    writeSysctl("net/ipv4/ip_forward", 1, { netns });
    await until(monitor, "forwarding");
    writeSysctl("net/ipv6/conf/all/forwarding", 1, { netns });
    await until(monitor, "forwarding");
  },
);

netnsTest(
  "RouteMonitor leaves out what the ignored sockets change",
  async () => {
    await using host = await tempNetns("mon");
    await host.ip("link", "add", "d0", "up", "type", "bridge");
    using netns = Netns.open(host.path);
    using own = RouteSocket.open({ netns });
    using other = RouteSocket.open({ netns });
    await using monitor = RouteMonitor.open({
      netns,
      interests: ALL,
      ignoredPortIds: [own.portId],
    });
    const link = await own.getLink({ name: "d0" });
    for (const text of ["10.1.2.3", "fd02::3"]) {
      const destination = Prefix.host(Address.parse(text));
      const { family } = destination;
      const route = { family, destination, index: link?.index, table: 116 };
      await own.execute([routeAdd(route), routeDelete(route)]);
    }
    await own.execute([ruleAdd({ family: "ipv4", priority: 7, table: 116 })]);
    await other.execute([ruleAdd({ family: "ipv6", priority: 7, table: 116 })]);
    assert.deepEqual(await until(monitor, "rule"), [
      { kind: "rule", family: "ipv6" },
    ]);
  },
);

netnsTest("RouteMonitor says when it missed something", async () => {
  await using host = await tempNetns("mon");
  using netns = Netns.open(host.path);
  await using monitor = RouteMonitor.open({
    netns,
    interests: ALL,
    receiveBufferBytes: 4096,
  });
  using other = RouteSocket.open({ netns });
  const rules = Array.from({ length: 500 }, (_, i) => ({
    family: "ipv4" as const,
    priority: 3000 + i,
    table: 116,
  }));
  await other.execute(rules.map((rule) => ruleAdd(rule)));
  await until(monitor, "overflow");
  // It goes on.
  while (
    (await monitor.next({ signal: AbortSignal.timeout(200) })
      .catch(() => [])).length > 0
  );
  await host.ip("rule", "del", "pref", "3000");
  await until(monitor, "rule");
});

netnsTest(
  "RouteMonitor stops waiting on a signal and when it is closed",
  async () => {
    await using host = await tempNetns("mon");
    using netns = Netns.open(host.path);
    const monitor = RouteMonitor.open({ netns, interests: ALL });
    const controller = new AbortController();
    const waiting = monitor.next({ signal: controller.signal });
    controller.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
    const { signal } = new AbortController();
    const closed = monitor.next({ signal });
    await monitor[Symbol.asyncDispose]();
    assert.deepEqual(await closed, []);
    await assert.rejects(monitor.next({ signal }), /closed/);
  },
);
