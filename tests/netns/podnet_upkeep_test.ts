import assert from "node:assert/strict";
import { Netns } from "../../lib/linux/mod.ts";
import {
  type Notification,
  RouteSocket,
  ruleAdd,
} from "../../lib/netlink/mod.ts";
import { addPod, NODE, testNode } from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";

netnsTest(
  "watch() tells nothing of what ADD does, and of a DEL nothing that is about a living pod",
  async () => {
    await using node = await testNode();
    const { host, net } = node;
    await net.init();
    await using monitor = net.upkeep.watch({ exportTableId: 119 });
    const told = async () => {
      const found: Notification[] = [];
      await host.ip("rule", "add", "pref", "7", "lookup", "7");
      const signal = AbortSignal.timeout(60_000);
      while (!found.some(({ kind }) => kind === "rule")) {
        found.push(...await monitor.next({ signal }));
      }
      await host.ip("rule", "del", "pref", "7");
      while (found.filter(({ kind }) => kind === "rule").length < 2) {
        found.push(...await monitor.next({ signal }));
      }
      return found.filter(({ kind }) => kind !== "rule");
    };
    const requests = [];
    for (const n of [1, 2, 3]) requests.push((await addPod(node, n)).request);
    assert.deepEqual(await told(), []);

    for (const request of requests) {
      const teardown = await net.beginTeardown(request);
      if (teardown !== undefined) await net.finishTeardown(teardown);
    }
    const ofDel = await told();
    assert.ok(ofDel.length <= 12, `${ofDel.length} notifications of 3 DELs`);
    assert.deepEqual(ofDel.flatMap((one) => net.upkeep.partsOf(one)), []);
  },
);

netnsTest(
  "watch() tells nothing of what its caller does by a socket of its own",
  async () => {
    await using node = await testNode();
    using netns = Netns.open(node.host.path);
    using own = RouteSocket.open({ netns });
    await using monitor = node.net.upkeep.watch({
      exportTableId: 119,
      ownPortIds: [own.portId],
    });
    await own.execute([ruleAdd({ family: "ipv6", priority: 8, table: 8 })]);
    await node.host.ip("-4", "rule", "add", "pref", "7", "lookup", "7");
    const signal = AbortSignal.timeout(60_000);
    const [first] = await monitor.next({ signal });
    assert.deepEqual(first, { kind: "rule", family: "ipv4" });
  },
);

netnsTest(
  "restoreEnd() gives a pod's end all that ADD gave it, and touches no other pod's",
  async () => {
    await using node = await testNode();
    const { host, net } = node;
    await net.init();
    const { request, result } = await addPod(node, 1);
    const { addresses } = request;
    const shown = async () => {
      const texts = await Promise.all([
        host.ip("-o", "address", "show", "dev", result.hostName),
        host.ip("-4", "route", "show", "table", "116"),
        host.ip("-6", "route", "show", "table", "116"),
        host.ip("-6", "route", "show", "dev", result.hostName),
      ]);
      return texts.join("").replaceAll(/ +$/gm, "").split("\n").sort();
    };
    const before = await shown();
    await host.ip("link", "set", result.hostName, "down");
    const lacks = async () => {
      const [pod] = await net.list();
      assert.ok(pod);
      const present = await net.upkeep.listAddresses();
      return net.upkeep.findEndLacks(pod, { addresses, present });
    };
    const all = ["link", "address", "route"];
    const [pod] = await net.list();
    assert.ok(pod);
    assert.deepEqual(await lacks(), all);
    assert.deepEqual(await net.upkeep.restoreEnd(pod, addresses), all);
    assert.deepEqual(await lacks(), []);
    assert.deepEqual(await shown(), before);
    await net.check(request);
    // The link that was listed is cut off: its address is about to be free.
    const teardown = await net.beginTeardown(request);
    assert.ok(teardown);
    const husk = await shown();
    assert.deepEqual(await net.upkeep.restoreEnd(pod, addresses), []);
    assert.deepEqual(await shown(), husk);
    // It is gone: what has come in its place is another.
    await net.finishTeardown(teardown);
    const again = await addPod(node, 1);
    await host.ip("link", "set", again.result.hostName, "down");
    assert.deepEqual(await net.upkeep.restoreEnd(pod, addresses), []);
  },
);

netnsTest(
  "restoreEnd() makes the pod's neighbour entries with the gateway's address, and none with a route alone",
  async () => {
    await using node = await testNode();
    const { host, net } = node;
    await net.init();
    const { request: { addresses }, result } = await addPod(node, 1);
    const device = ["dev", result.hostName];
    const neighbours = async () => {
      const text = await host.ip("neighbour", "show", ...device);
      return text.split("\n").map((line) => line.split(" ")[0]).filter((to) =>
        to === String(addresses.ipv4) || to === String(addresses.ipv6)
      ).toSorted();
    };
    const restore = async () => {
      await host.ip("neighbour", "flush", ...device);
      assert.deepEqual(await neighbours(), []);
      const [pod] = await net.list();
      assert.ok(pod);
      return await net.upkeep.restoreEnd(pod, addresses);
    };
    const show = ["-6", "-o", "address", "show", ...device];
    const [, gateway = ""] = /inet6 (\S+)/.exec(await host.ip(...show)) ?? [];
    await host.ip("address", "delete", gateway, ...device);
    assert.deepEqual(await restore(), ["address"]);
    assert.deepEqual(await neighbours(), ["10.1.2.1", "fd02::1"]);
    await host.ip("-6", "route", "delete", "fd02::1", "table", "116");
    assert.deepEqual(await restore(), ["route"]);
    assert.deepEqual(await neighbours(), []);
  },
);

netnsTest(
  "ensureHost() makes what is missing, beside others that do the same",
  async () => {
    await using node = await testNode();
    const { host, net } = node;
    for (
      const sysctl of ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"]
    ) {
      await host.exec("sysctl", "-w", `${sysctl}=0`);
    }
    const reports = await Promise.all(
      [net, node.restart(), node.restart()].map(({ upkeep }) =>
        upkeep.ensureHost()
      ),
    );
    // Each is reported by whichever came first, or by several that made it at once.
    const repaired = reports.flatMap((report) => report.repaired)
      .map(({ what, family }) => `${family} ${what}`);
    assert.deepEqual(
      [...new Set(repaired)].sort(),
      ["ipv4 forwarding", "ipv4 rule", "ipv6 forwarding", "ipv6 rule"],
    );
    assert.deepEqual(reports.flatMap(({ problems }) => problems), []);
    const rules = await host.ip("-6", "rule", "show", "pref", "2000");
    assert.equal(rules.trim().split("\n").length, 1, rules);
  },
);

netnsTest(
  "ensureHost() goes on after a failure, and tells what it did and could not do",
  async () => {
    // The kernel has no IPv6 rule for no table.
    await using node = await testNode({ tableId: 0 });
    const { repaired, problems } = await node.net.upkeep.ensureHost();
    const rules = repaired.filter(({ what }) => what === "rule");
    assert.deepEqual(rules.map(({ family }) => family), ["ipv4"]);
    assert.deepEqual(problems.map(({ family }) => family), ["ipv6"]);
  },
);

netnsTest(
  "findHostLacks() takes no rule for its own that does less, with any selector",
  async () => {
    await using node = await testNode();
    const { host, net } = node;
    await net.init();
    const addresses = { ipv4: NODE.ipv4, ipv6: NODE.ipv6 };
    assert.deepEqual(await net.upkeep.findHostLacks(addresses), []);
    for (
      const selector of [
        ["oif", "node0"],
        ["not", "from", "10.0.0.0/8"],
        ["not"],
        ["uidrange", "1-2"],
        ["ipproto", "tcp"],
        ["sport", "53"],
        ["dport", "53"],
        ["tos", "0x10"],
        ["fwmark", "0/0xff"],
        ["fwmark", "0/0xffffffff"],
        ["suppress_prefixlength", "0"],
      ]
    ) {
      for (
        const family of selector.includes("10.0.0.0/8") ? ["-4"] : ["-4", "-6"]
      ) {
        const rule = ["lookup", "116", "priority", "2000"];
        await host.ip(family, "rule", "del", ...rule);
        await host.ip(family, "rule", "add", ...selector, ...rule);
        const problems = await net.upkeep.findHostLacks(addresses);
        assert.equal(problems.length, 1, `${family} ${selector.join(" ")}`);
        assert.match(problems[0] ?? "", /that is not Coil's/);
        await host.ip(family, "rule", "del", ...selector, ...rule);
        await net.upkeep.ensureHost();
      }
    }
    assert.deepEqual(await net.upkeep.findHostLacks(addresses), []);
  },
);
