// Odd pods, and settings that leave something out.
import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { failing } from "./coordinator_faults.ts";
import {
  addressIn,
  CoordinatorLab,
  fetched,
  interfaceAddressIn,
  type LabPod,
  type NicSpec,
  ours,
  reaches,
  serving,
  stateOf,
  untilUsed,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };

async function everything(
  { host }: CoordinatorLab,
  { netns }: LabPod,
): Promise<readonly string[][]> {
  return [await stateOf(netns), await stateOf(host)];
}

netnsTest(
  "coordinator: mode disable changes nothing, beside any other setting, and prints the result before it",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([ETH0]);
    const before = await everything(lab, pod);
    for (const mode of ["disable", "disabled"]) {
      const config = {
        mode,
        policyRoutes: [{ dst: "198.18.0.0/15", gw: "10.6.0.1" }],
        podMACPrefix: "0a:1b",
        detectIPConflict: true,
      };
      const printed = JSON.parse(await lab.ok("ADD", pod, { config }));
      assert.equal(printed.ours, "kept");
      for (const command of ["CHECK", "DEL"] as const) {
        await lab.ok(command, pod, { config });
      }
      assert.deepEqual(await everything(lab, pod), before, mode);
    }
  },
);

netnsTest(
  "coordinator: ADD and CHECK without the pod's namespace say so, and change nothing",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([ETH0]);
    const before = await everything(lab, pod);
    const path = "/run/netns/coordinator-gone";
    for (const command of ["ADD", "CHECK"] as const) {
      assert.equal(
        await lab.refusal(command, pod, { netns: path }),
        `4 network namespace "${path}" is not there`,
      );
    }
    assert.deepEqual(await everything(lab, pod), before);
  },
);

netnsTest(
  "coordinator: links of tunnels, and such that are down, take no interface's number",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    for (const name of ["tunl0", "down0"]) {
      const peer = ["peer", "name", `${name}p`];
      const link = ["link", "add", "name", name, "type", "veth", ...peer];
      await pod.netns.ip(...link);
    }
    await pod.netns.ip("link", "set", "tunl0", "up");
    await lab.addNic(pod.netns, NET1);
    await lab.ok("ADD", pod, { ifname: "net1" });
    const rules = await pod.netns.ip("rule");
    assert.match(rules, /^1101:\tfrom 10\.7\.0\.100 lookup 101 proto 32/m);
    await lab.ok("CHECK", pod, { ifname: "net1" });
  },
);

netnsTest(
  "coordinator: the link to the host has its MTU at both ends, and an IPv4 address only in pods that have any",
  async () => {
    for (const family of FAMILIES) {
      await using lab = await CoordinatorLab.start([family]);
      const config = {
        vethMTU: 1400,
        vethLinkAddress: "169.254.200.1",
        hostRuleTable: 200,
      };
      const pod = await lab.joined([ETH0], { config });
      const [inside] = await pod.netns.ipJson("link", "show", "veth0");
      const links = await lab.host.ipJson("link", "show", "type", "veth");
      const outside = links.find(({ ifalias }) =>
        String(ifalias).startsWith("COIL-COORD:")
      );
      assert.deepEqual([inside?.["mtu"], outside?.["mtu"]], [1400, 1400]);
      const addresses = await pod.netns.ip("address", "show", "dev", "veth0");
      const expected = family === "ipv4";
      assert.equal(/inet 169\.254\.200\.1\/32/.test(addresses), expected);
      const option = family === "ipv4" ? "-4" : "-6";
      const rules = await lab.host.ip(option, "rule");
      assert.match(rules, /^1000:\tfrom all lookup 200 proto 32/m);
      assert.ok(await reaches(lab.host, addressIn(6, family, 100)));
    }
  },
);

netnsTest(
  "coordinator: where the host has no IPv6, what should go through it by that is left out, with a warning",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const own = interfaceAddressIn(6, "ipv6", 10);
    await lab.host.ip("address", "delete", own, "dev", "net6");
    const pod = await lab.joined([ETH0]);
    assert.match(lab.warnings.join(), /no address of the family.* ipv6 eth0/);
    const routes = await pod.netns.ip("-6", "route", "show", "table", "all");
    assert.doesNotMatch(routes, /fd00:233::/);
    assert.ok(await reaches(lab.host, addressIn(6, "ipv4", 100)));
    assert.ok(await reaches(pod.netns, addressIn(6, "ipv6", 1)));
  },
);

/** Turns IPv6 off, for new links or for all. */
async function turnIpv6Off(
  { exec }: LabPod["netns"],
  ...which: readonly ("all" | "default")[]
): Promise<void> {
  for (const name of which) {
    await exec("sysctl", "-qw", `net.ipv6.conf.${name}.disable_ipv6=1`);
  }
}

/** A sysctl of the host's end of the only pair. */
async function settingOf(
  { host }: CoordinatorLab,
  name: string,
): Promise<string> {
  const file = `/proc/sys/net/ipv6/conf/veth*/${name}`;
  return (await host.exec("sh", "-c", `cat ${file}`)).trim();
}

netnsTest(
  "coordinator: where new links have IPv6 off, the one between pod and host has it on",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.pod([{ ...ETH0, families: ["ipv4"] }]);
    const address = interfaceAddressIn(6, "ipv6", 100);
    await pod.netns.ip("address", "add", address, "dev", "eth0", "nodad");
    for (const netns of [pod.netns, lab.host]) {
      await turnIpv6Off(netns, "default");
    }
    await lab.ok("ADD", pod);
    await lab.ok("CHECK", pod);
    assert.ok(await reaches(lab.host, addressIn(6, "ipv6", 100)));
    await serving(lab, async () => {
      const seen = await fetched(pod.netns, "ipv6");
      assert.equal(seen, addressIn(6, "ipv6", 100));
    });
    assert.equal(await settingOf(lab, "accept_ra"), "0");
  },
);

netnsTest(
  "coordinator: where the host has IPv6 off, a pod with IPv6 addresses is joined by IPv4",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    await turnIpv6Off(lab.host, "all", "default");
    const pod = await lab.joined([ETH0, NET1]);
    for (const [ifname, network] of [["eth0", 6], ["net1", 7]] as const) {
      await lab.ok("CHECK", pod, { ifname });
      assert.ok(await reaches(lab.host, addressIn(network, "ipv4", 100)));
      // From a network that another interface of the pod is in.
      const source = addressIn(network === 6 ? 7 : 6, "ipv6", 1);
      const address = addressIn(network, "ipv6", 100);
      assert.ok(await reaches(lab.switch, address, { source }), ifname);
    }
    assert.match(lab.warnings.join(), /no address of the family.* ipv6 eth0/);
    assert.equal(await settingOf(lab, "disable_ipv6"), "1");
    for (const ifname of ["net1", "eth0"]) await lab.ok("DEL", pod, { ifname });
    assert.deepEqual(ours((await everything(lab, pod)).flat()), []);
  },
);

netnsTest(
  "coordinator: policy routes of a family that the interface lacks are left out, and one that is there already does not matter",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([ETH0]);
    const route = ["198.18.0.0/15", "via", "10.6.0.1"];
    await pod.netns.ip("route", "add", ...route, "dev", "eth0");
    const config = {
      policyRoutes: [
        { dst: "198.18.0.0/15", gw: "10.6.0.1" },
        { dst: "2001:2::/48", gw: "fd00:10:6::1" },
      ],
    };
    await lab.ok("ADD", pod, { config });
    assert.match(
      await pod.netns.ip("route", "show", "198.18.0.0/15"),
      /^198\.18\.0\.0\/15 via 10\.6\.0\.1 dev eth0[^\n]*\n$/,
    );
    const all = await pod.netns.ip("-6", "route", "show", "table", "all");
    assert.doesNotMatch(all, /2001:2/);
    await lab.ok("CHECK", pod, { config });
  },
);

netnsTest(
  "coordinator: of an IPv6 default route with two ways each interface gets its own",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv6"]);
    const pod = await lab.joined([ETH0]);
    await lab.addNic(pod.netns, NET1);
    // To the kernel two routes with one metric are one with two ways.
    const main = await pod.netns.ip("-6", "route", "show", "default");
    assert.match(main, /nexthop[^]*nexthop/);
    await lab.ok("ADD", pod, { ifname: "net1" });
    const defaults = async (table: string) =>
      await pod.netns.ip("-6", "route", "show", "default", "table", table);
    assert.match(await defaults("main"), /^default via \S+ dev eth0 [^\n]*\n$/);
    assert.match(await defaults("101"), /^default via \S+ dev net1 [^\n]*\n$/);
    for (const [network, other] of [[6, 7], [7, 6]] as const) {
      const source = addressIn(other, "ipv6", 1);
      const address = addressIn(network, "ipv6", 100);
      assert.ok(await reaches(lab.switch, address, { source }), address);
    }
    await lab.ok("CHECK", pod, { ifname: "net1" });
  },
);

netnsTest(
  "coordinator: the host may check reverse paths strictly",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    for (const link of ["all", "default"]) {
      const name = `net.ipv4.conf.${link}.rp_filter=1`;
      await lab.host.exec("sysctl", "-qw", name);
    }
    const underlay = await lab.joined([ETH0, NET1]);
    const further: NicSpec = { ...NET1, number: 110 };
    const overlay = await lab.joined([further], { overlay: 5 });
    await serving(lab, async () => {
      for (const { netns } of [underlay, overlay]) {
        assert.match(await fetched(netns, "ipv4"), /^10\./);
        assert.ok(await reaches(netns, addressIn(6, "ipv4", 10)));
      }
      for (const [network, number] of [[6, 100], [7, 100], [7, 110]] as const) {
        const address = addressIn(network, "ipv4", number);
        assert.ok(await reaches(lab.host, address), address);
      }
      const source = addressIn(7, "ipv4", 110);
      assert.equal(await fetched(overlay.netns, "ipv4", { source }), source);
    });
  },
);

for (
  const [what, words, shown] of [
    // Else IPv6 has one route with two ways.
    ["its MTU", ["metric", "2048", "mtu", "1300"], /.*mtu 1300/],
    ["a gateway that no route leads to", ["onlink"], /.*onlink/],
  ] as const
) {
  netnsTest(
    `coordinator: a route keeps ${what} when it is moved, and when that fails`,
    async () => {
      await using lab = await CoordinatorLab.start(FAMILIES);
      const pod = await lab.joined([ETH0]);
      await lab.addNic(pod.netns, { ...NET1, families: [] });
      for (const family of FAMILIES) {
        const ip = (...args: string[]) =>
          pod.netns.ip(family === "ipv4" ? "-4" : "-6", ...args);
        const own = addressIn(7, family, 100);
        const nodad = family === "ipv4" ? [] : ["nodad"];
        await ip("address", "add", own, "dev", "net1", ...nodad);
        await untilUsed(pod.netns, "net1", own);
        const gateway = addressIn(7, family, 1);
        if (what === "its MTU") {
          await ip("route", "add", gateway, "dev", "net1");
        }
        const way = ["default", "via", gateway, "dev", "net1", ...words];
        await ip("route", "append", ...way);
      }
      const state = async () => [
        ...await everything(lab, pod),
        await pod.netns.ip("-6", "route", "show", "default"),
      ];
      const before = await state();
      for (let step = 0;; step++) {
        const at = { left: step };
        lab.change = failing(at);
        const { exitCode, stdout } = await lab.call("ADD", pod, {
          ifname: "net1",
        });
        if (at.left >= 0) {
          assert.equal(exitCode, 0, stdout);
          break;
        }
        assert.equal(exitCode, 1, `step ${step}`);
        assert.deepEqual(await state(), before, `step ${step}`);
      }
      for (const option of ["-4", "-6"]) {
        const moved = await pod.netns.ip(
          ...[option, "route", "show", "table", "101"],
        );
        const line = new RegExp(
          `^default via \\S+ dev net1 ${shown.source}`,
          "m",
        );
        assert.match(moved, line);
      }
      await lab.ok("CHECK", pod, { ifname: "net1" });
    },
  );
}

netnsTest(
  "coordinator: where the pair's name or all tables are taken, ADD says what to do and changes nothing",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    const links = await lab.host.ipJson("link", "show", "type", "veth");
    const name = `${
      links.find(({ ifalias }) => /COIL-COORD/.test(`${ifalias}`))?.["ifname"]
    }`;
    await lab.host.ip("link", "set", name, "down");
    await lab.host.ip("link", "set", name, "name", "renamed");
    await lab.host.ip("link", "add", name, "type", "bridge");
    await lab.host.ip("link", "set", name, "alias", "mine");
    const before = await everything(lab, pod);
    const { stdout } = await lab.call("ADD", pod);
    const { code, msg, details } = JSON.parse(stdout);
    assert.equal(
      `${code} ${msg}`,
      `11 interface "eth0" cannot be connected: the host has another link "${name}"`,
    );
    assert.match(details, /^its alias is "mine", not .*: rename it, or delete/);
    assert.deepEqual(await everything(lab, pod), before);

    const full = await lab.joined([{ ...ETH0, number: 101 }]);
    await lab.addNic(full.netns, NET1);
    await full.netns.exec(
      "sh",
      "-c",
      "for n in $(seq 1 99); do ip rule add pref $((1100+n)) lookup $((100+n)); done",
    );
    const free = await everything(lab, full);
    assert.equal(
      await lab.refusal("ADD", full, { ifname: "net1" }),
      '11 no route table is free for interface "net1"',
    );
    assert.deepEqual(await everything(lab, full), free);
    const config = { tunePodRoutes: false };
    await lab.ok("ADD", full, { ifname: "net1", config });
  },
);

netnsTest(
  "coordinator: ADD of a new pod leaves another program's link of the pair's name as it is",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    const [link] = (await lab.host.ipJson("link", "show", "type", "veth"))
      .filter(({ ifalias }) => /COIL-COORD/.test(`${ifalias}`));
    const name = `${link?.["ifname"]}`;
    await lab.ok("DEL", pod);
    for (const kind of ["bridge", "veth"]) {
      await lab.host.ip("link", "add", name, "type", kind);
      await lab.host.ip("link", "set", name, "alias", "mine");
      const before = await everything(lab, pod);
      assert.match(await lab.refusal("ADD", pod), /^11 .*has another link/);
      assert.deepEqual(await everything(lab, pod), before);
      await lab.host.ip("link", "delete", name);
    }
    for (const kind of ["bridge", "veth"]) {
      await lab.host.ip("link", "add", "theirs", "type", kind);
      await lab.host.ip(
        ...["link", "property", "add", "dev", "theirs", "altname", name],
      );
      const before = await everything(lab, pod);
      const { stdout } = await lab.call("ADD", pod);
      assert.match(stdout, /"code": 11,[^]*alternative name of ."theirs/);
      assert.deepEqual(await everything(lab, pod), before);
      await lab.ok("DEL", pod);
      assert.deepEqual(await everything(lab, pod), before);
      await lab.host.ip("link", "delete", "theirs");
    }
    await lab.ok("ADD", pod);
  },
);

netnsTest(
  "coordinator: a destination that is an address of the host keeps its route to the host",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const own = FAMILIES.map((family) => addressIn(6, family, 10));
    const config = { hijackCIDR: own };
    const pod = await lab.joined([ETH0, NET1], { config });
    for (const ifname of ["eth0", "net1"]) {
      await lab.ok("CHECK", pod, { ifname, config });
    }
    for (const address of own) {
      const route = await pod.netns.ip("route", "get", address);
      assert.doesNotMatch(route, / via /);
      assert.ok(await reaches(pod.netns, address));
    }
  },
);

netnsTest(
  "coordinator: ADD with a result that cannot be printed changes nothing",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([ETH0]);
    const before = await everything(lab, pod);
    const env = new Map(Object.entries({
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: pod.containerId,
      CNI_NETNS: pod.netns.path,
      CNI_IFNAME: "eth0",
      CNI_PATH: "/opt/cni/bin",
    }));
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const stdin = new TextEncoder().encode(
      `{"cniVersion":"1.1.0","name":"lab","serviceCIDR":["10.233.0.0/18"],` +
        `"prevResult":{"cniVersion":"1.1.0","deep":${deep}}}`,
    );
    const { exitCode, stdout } = await lab.door({ env, stdin });
    assert.equal(exitCode, 1);
    assert.match(stdout, /Maximum call stack size exceeded/);
    assert.deepEqual(await everything(lab, pod), before);
  },
);

netnsTest(
  "coordinator: a pair's MTU that is too small for IPv6 is refused where the pod has IPv6",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const config = { vethMTU: 1279 };
    assert.equal(
      await lab.refusal("ADD", await lab.pod([ETH0]), { config }),
      "7 vethMTU 1279 is too small for IPv6",
    );
    const families = ["ipv4"] as const;
    await lab.joined([{ ...ETH0, number: 101, families }], { config });
  },
);
