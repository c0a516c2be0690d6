import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../lib/inet/mod.ts";
import {
  addressIn,
  CoordinatorLab,
  fetched,
  type NicSpec,
  reaches,
  serving,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest, type TempNetns } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
const NET2: NicSpec = { name: "net2", network: 8, number: 100 };

const STACKS: Readonly<Record<string, readonly Family[]>> = {
  "IPv4": ["ipv4"],
  "IPv6": ["ipv6"],
  "dual stack": FAMILIES,
};

for (const [stack, families] of Object.entries(STACKS)) {
  netnsTest(
    `coordinator: an underlay pod reaches its host and a ClusterIP, ${stack}`,
    async () => {
      await using lab = await CoordinatorLab.start(families);
      const pod = await lab.pod([ETH0]);
      for (const family of families) {
        const address = addressIn(6, family, 100);
        // The parent of a macvlan and its children are strangers.
        assert.equal(await reaches(lab.host, address), false, family);
      }
      const stdout = await lab.ok("ADD", pod);
      assert.deepEqual(JSON.parse(stdout), {
        cniVersion: "1.1.0",
        ours: "kept",
      });
      await serving(lab, async () => {
        for (const family of families) {
          const address = addressIn(6, family, 100);
          assert.ok(await reaches(lab.host, address), `host to ${family}`);
          assert.ok(
            await reaches(pod.netns, addressIn(6, family, 10)),
            `${family} to host`,
          );
          assert.match(await fetched(pod.netns, family), new RegExp(address));
          // Others are reached as before.
          assert.ok(await reaches(pod.netns, addressIn(7, family, 1)), family);
        }
      });
      await lab.ok("CHECK", pod);
    },
  );

  netnsTest(
    `coordinator: three interfaces answer each by itself under rp_filter 1, ${stack}`,
    async () => {
      await using lab = await CoordinatorLab.start(families);
      const nics = [ETH0, NET1, NET2];
      const pod = await lab.joined(nics, { config: { podRPFilter: 1 } });
      for (const family of families) {
        for (const { network } of nics) {
          const address = addressIn(network, family, 100);
          // From a network behind the gateway: the way back is the interface's own.
          const other = network === 6 ? 7 : 6;
          const source = addressIn(other, family, 1);
          assert.ok(await reaches(lab.switch, address, { source }), address);
          assert.ok(await reaches(lab.host, address), `host to ${address}`);
        }
      }
      assert.deepEqual(
        await sources(pod.netns, families[0] ?? "ipv4"),
        ["1101 lookup 101", "1102 lookup 102", "1200 lookup 200"],
      );
    },
  );
}

/** The rules by source, with their tables. */
async function sources(pod: TempNetns, family: Family): Promise<string[]> {
  const rules = await pod.ip(family === "ipv4" ? "-4" : "-6", "rule");
  return rules.split("\n").filter((line) => /^1[12]\d\d:/.test(line))
    .map((line) => line.replace(/:.*(lookup \d+).*/, " $1"));
}

const ORDERS = [
  ["eth0", "net1", "net2"],
  ["net2", "net1", "eth0"],
  ["net1", "net1", "eth0", "net2", "net1"],
];

for (const order of ORDERS) {
  netnsTest(
    `coordinator: ADD once more, in the order ${
      order.join(", ")
    }, changes nothing`,
    async () => {
      await using lab = await CoordinatorLab.start(FAMILIES);
      const pod = await lab.joined([ETH0, NET1, NET2]);
      const before = [await stateOf(pod.netns), await stateOf(lab.host)];
      for (const ifname of order) await lab.ok("ADD", pod, { ifname });
      const after = [await stateOf(pod.netns), await stateOf(lab.host)];
      assert.deepEqual(after, before);
      assert.ok(await reaches(lab.host, addressIn(6, "ipv4", 100)));
    },
  );
}

netnsTest(
  "coordinator: an interface with another address has its old one forgotten",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0, NET1]);
    await pod.netns.ip("link", "delete", "net1");
    await lab.addNic(pod.netns, { ...NET1, number: 101 });
    await lab.ok("ADD", pod, { ifname: "net1" });
    const rules = await pod.netns.ip("-4", "rule");
    assert.match(rules, /1101:\tfrom 10\.7\.0\.101 lookup 101/);
    assert.doesNotMatch(rules, /10\.7\.0\.100/);
    assert.doesNotMatch((await stateOf(lab.host)).join("\n"), /10\.7\.0\.100/);
    assert.ok(await reaches(lab.host, "10.7.0.101"));
  },
);

netnsTest(
  "coordinator: containers whose IDs begin alike have links of their own",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const one = await lab.pod([ETH0], "abcdef012345");
    const other = await lab.pod([{ ...ETH0, number: 101 }], "abcdef012346");
    await lab.ok("ADD", one);
    await lab.ok("ADD", other);
    assert.ok(await reaches(lab.host, "10.6.0.100"));
    assert.ok(await reaches(lab.host, "10.6.0.101"));
    await lab.ok("DEL", one);
    assert.equal(await reaches(lab.host, "10.6.0.100"), false);
    assert.ok(await reaches(lab.host, "10.6.0.101"));
  },
);

netnsTest(
  "coordinator: stale routes and neighbours of another link do not matter",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.pod([ETH0]);
    for (const family of FAMILIES) {
      const address = addressIn(6, family, 100);
      await lab.host.ip("route", "add", address, "dev", "net7", "table", "500");
      await lab.host.ip(
        ...["neighbour", "add", address, "dev", "net7"],
        ...["lladdr", "02:00:00:00:00:99", "nud", "permanent"],
      );
    }
    await lab.ok("ADD", pod);
    for (const family of FAMILIES) {
      assert.ok(await reaches(lab.host, addressIn(6, family, 100)), family);
    }
  },
);

netnsTest(
  "coordinator: a client of a NodePort gets its answer from each interface",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await lab.joined([ETH0, NET1], { config: { podRPFilter: 1 } });
    for (const [port, network] of [[30006, 6], [30007, 7]] as const) {
      // Without SNAT, as externalTrafficPolicy Local has it.
      await lab.host.exec(
        "nft",
        `table ip np${port} { chain pre { type nat hook prerouting priority -101; ` +
          `ip daddr 10.6.0.10 icmp type echo-request ip length ${
            port === 30006 ? 128 : 228
          } dnat to ${addressIn(network, "ipv4", 100)}; }; }`,
      );
      const { code, stdout } = await lab.switch.tryExec(
        ...["ping", "-n", "-c", "1", "-w", "20", "-s"] as [string, ...string[]],
        port === 30006 ? "100" : "200",
        ...["-I", "10.8.0.1", "10.6.0.10"],
      );
      assert.equal(code, 0, `${port}: ${stdout}`);
    }
  },
);

netnsTest(
  "coordinator: ADD once more changes nothing when another interface has the default route",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    // Named by the first call, too, which comes before the interface is there.
    const config = { podDefaultRouteNic: "net1" };
    const pod = await lab.joined([ETH0, NET1, NET2], { config });
    const before = [await stateOf(pod.netns), await stateOf(lab.host)];
    for (const ifname of ["eth0", "net2", "net1", "eth0"]) {
      await lab.ok("ADD", pod, { ifname, config });
      await lab.ok("CHECK", pod, { ifname, config });
      const after = [await stateOf(pod.netns), await stateOf(lab.host)];
      assert.deepEqual(after, before, ifname);
    }
    const far = await pod.netns.ip("route", "get", "198.51.100.1");
    assert.match(far, /dev net1/);
    for (const { network } of [ETH0, NET1, NET2]) {
      const address = addressIn(network, "ipv4", 100);
      const source = addressIn(network === 6 ? 7 : 6, "ipv4", 1);
      assert.ok(await reaches(lab.switch, address, { source }), address);
    }
  },
);
