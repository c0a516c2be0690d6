import assert from "node:assert/strict";
import type { CoordinatorHusk } from "../../lib/coordinator/mod.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import {
  addressIn,
  CoordinatorLab,
  interfaceAddressIn,
  type LabPod,
  type NicSpec,
  ours,
  reaches,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
const NET2: NicSpec = { name: "net2", network: 8, number: 100 };

async function lookup(
  lab: CoordinatorLab,
  pod: LabPod,
): Promise<{ pod: string[]; host: string[] }> {
  return { pod: await stateOf(pod.netns), host: await stateOf(lab.host) };
}

/** A DEL by a coild that is killed before it deletes the pair. */
async function cutOff(lab: CoordinatorLab, pod: LabPod): Promise<void> {
  const discard = () => Promise.resolve();
  lab.change = (outside) => ({ ...outside, discard });
  await lab.ok("DEL", pod);
  lab.change = (outside) => outside;
}

netnsTest(
  "coordinator: DEL takes exactly what ADD of that interface made, twice",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.joined([ETH0, NET1]);
    const before = await lookup(lab, pod);
    await lab.addNic(pod.netns, NET2);
    await lab.ok("ADD", pod, { ifname: "net2" });
    for (let i = 0; i < 2; i++) {
      await lab.ok("DEL", pod, { ifname: "net2", prevResult: null });
      await pod.netns.tryExec("ip", "link", "delete", "net2");
      const after = await lookup(lab, pod);
      assert.deepEqual(withoutLinks(after.pod), withoutLinks(before.pod));
      assert.deepEqual(withoutLinks(after.host), withoutLinks(before.host));
    }
    // One that is gone before its DEL, of which the runtime knows no result.
    await lab.addNic(pod.netns, NET2);
    await lab.ok("ADD", pod, { ifname: "net2" });
    await pod.netns.ip("link", "delete", "net2");
    await lab.ok("DEL", pod, { ifname: "net2", prevResult: null });
    const gone = await lookup(lab, pod);
    assert.deepEqual(withoutLinks(gone.pod), withoutLinks(before.pod));
    assert.deepEqual(withoutLinks(gone.host), withoutLinks(before.host));
    // A route that another program has removed.
    await lab.host.ip("route", "delete", "10.7.0.100", "table", "500");
    await lab.ok("DEL", pod, { ifname: "net1" });
    const known = await lab.host.ip("neighbour", "show", "nud", "permanent");
    assert.doesNotMatch(known, /10\.7\.0\.100/);
    assert.ok(await reaches(lab.host, addressIn(6, "ipv4", 100)));
    assert.doesNotMatch(await pod.netns.ip("rule"), /lookup 200/);
    for (let i = 0; i < 2; i++) await lab.ok("DEL", pod, { ifname: "eth0" });
    const left = await lookup(lab, pod);
    assert.deepEqual(ours(left.pod), []);
    assert.deepEqual(ours(left.host), []);
  },
);

netnsTest(
  "coordinator: DEL waits for no deletion, which takes only the pair that was cut off",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.joined([ETH0]);
    const { discard } = lab.outside();
    const husks: CoordinatorHusk[] = [];
    lab.change = (outside) => ({
      ...outside,
      discard(husk) {
        husks.push(husk);
        return Promise.resolve();
      },
    });
    await lab.ok("DEL", pod);
    const left = await lookup(lab, pod);
    assert.deepEqual(ours(left.pod), []);
    assert.match(left.host.join("\n"), /"COIL-COORD-HUSK:[0-9a-f]+:eth0"/);
    assert.doesNotMatch(left.host.join("\n"), /proto 32 scope|COIL-COORD:/);
    // A DEL once more sees to it that it goes, and an ADD needs the name.
    await lab.ok("DEL", pod);
    assert.equal(husks.length, 2);
    assert.deepEqual(husks[0], husks[1]);
    await lab.ok("ADD", pod);
    for (const husk of husks) await discard(husk);
    assert.ok(await reaches(lab.host, addressIn(6, "ipv4", 100)));
    await lab.ok("CHECK", pod);
  },
);

netnsTest(
  "coordinator: ADD right after DEL makes a new pair, also when the old one goes while it looks",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    await cutOff(lab, pod);
    const links = await lab.host.ipJson("link", "show", "type", "veth");
    const husk = links.find(({ ifalias }) => /HUSK/.test(String(ifalias)));
    const name = String(husk?.["ifname"]);
    lab.change = (outside) => ({
      ...outside,
      openRoutes(netns) {
        const socket = outside.openRoutes(netns);
        const getLink = socket.getLink.bind(socket);
        socket.getLink = async (selector) => {
          // What deletes cut off pairs gets round to it.
          if ("name" in selector && selector.name === name) {
            await lab.host.tryExec("ip", "link", "delete", name);
          }
          return await getLink(selector);
        };
        return socket;
      },
    });
    await lab.ok("ADD", pod);
    lab.change = (outside) => outside;
    await lab.ok("CHECK", pod);
    assert.ok(await reaches(lab.host, addressIn(6, "ipv4", 100)));
  },
);

netnsTest(
  "coordinator: GC forgets addresses of interfaces whose DEL was lost",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const underlay = await lab.joined([ETH0, NET1]);
    const overlay = await lab.joined([{ ...NET1, number: 101 }], {
      overlay: 5,
    });
    const before = ours(await stateOf(lab.host));
    const valid = [underlay, overlay].map(({ containerId: containerID }) => ({
      containerID,
      ifname: "eth0",
    }));
    const collect = () =>
      lab.ok("GC", underlay, {
        prevResult: null,
        config: { "cni.dev/valid-attachments": valid },
      });
    await collect();
    assert.deepEqual(ours(await stateOf(lab.host)), before);
    for (const { netns } of [underlay, overlay]) {
      await netns.ip("link", "delete", "net1");
    }
    await collect();
    const after = ours(await stateOf(lab.host));
    assert.deepEqual(
      after,
      before.filter((line) => !/10\.7\.0\.|:10:7::/.test(line)),
    );
    assert.ok(after.length < before.length - 4);
    assert.ok(await reaches(lab.host, addressIn(6, "ipv4", 100)));
  },
);

netnsTest(
  "coordinator: GC deletes a pair that a killed coild has cut off",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    await cutOff(lab, pod);
    const valid = [{ containerID: pod.containerId, ifname: "eth0" }];
    await lab.ok("GC", pod, {
      prevResult: null,
      config: { "cni.dev/valid-attachments": valid },
    });
    assert.doesNotMatch((await stateOf(lab.host)).join("\n"), /COIL-COORD/);
  },
);

/** Links are the plugin's before; sysctls of links come and go with them. */
function withoutLinks(state: readonly string[]): string[] {
  return state.filter((line) => !/^\{|net2/.test(line));
}

netnsTest(
  "coordinator: DEL of the last interface takes the link to the host",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0, NET1]);
    // The first one's DEL was lost, with its interface.
    await pod.netns.ip("link", "delete", "eth0");
    await lab.ok("DEL", pod, { ifname: "net1" });
    const left = await lookup(lab, pod);
    assert.deepEqual(ours(left.host), []);
    assert.deepEqual(ours(left.pod), []);
  },
);

netnsTest(
  "coordinator: DEL works without the namespace, and with a configuration that is not one",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0, NET1]);
    await lab.ok("DEL", pod, {
      ifname: "net1",
      netns: "/run/netns/not-there",
      config: { mode: "nonsense" },
      prevResult: {
        cniVersion: "1.1.0",
        ips: [{ address: "10.7.0.100/24" }],
      },
    });
    assert.doesNotMatch((await stateOf(lab.host)).join("\n"), /10\.7\.0\.100/);
    assert.ok(await reaches(lab.host, "10.6.0.100"));
    await lab.ok("DEL", pod, { netns: "", prevResult: null });
    assert.deepEqual(ours(await stateOf(lab.host)), []);
  },
);

netnsTest("coordinator: CHECK names each thing that is missing", async () => {
  await using lab = await CoordinatorLab.start(FAMILIES);
  const pod = await lab.joined([ETH0, NET1]);
  await lab.ok("CHECK", pod);
  await lab.ok("CHECK", pod, { ifname: "net1" });
  const faults: readonly (readonly [string, string, RegExp])[] = [
    ["pod", "ip rule del pref 1000", /rule add pref 1000 fwmark/],
    ["pod", "ip rule del pref 1101", /rule add pref 1101 from 10\.7\.0\.100/],
    ["pod", "ip -6 route del default table 100", /-6 route replace default/],
    ["pod", "ip route del 10.233.0.0/18", /route replace 10\.233\.0\.0\/18/],
    [
      "pod",
      "ip neigh del 10.6.0.10 dev veth0",
      /neighbour replace 10\.6\.0\.10/,
    ],
    ["pod", "nft delete table inet coil-coordinator", /nft -f replies\.nft/],
    ["pod", "sysctl -qw net.ipv4.conf.all.rp_filter=2", /rp_filter=0/],
    ["pod", "ip link set net1 down", /link set dev net1 up/],
    [
      "host",
      "ip route del 10.7.0.100 table 500",
      /route replace 10\.7\.0\.100/,
    ],
    ["host", "ip rule del pref 1000", /ip rule add pref 1000 lookup 500/],
  ];
  for (const [place, command, expected] of faults) {
    const netns = place === "pod" ? pod.netns : lab.host;
    await netns.exec("sh", "-c", command);
    const { stdout, exitCode } = await lab.call("CHECK", pod, {
      ifname: "net1",
    });
    assert.equal(exitCode, 1, command);
    const { msg, details } = JSON.parse(stdout);
    assert.match(
      msg,
      /interface "net1" of container ".*" is not as ADD made it/,
    );
    assert.match(details, expected, command);
    // A second ADD mends it; what goes with a link that was down is the plugin's before.
    if (command.includes("down")) {
      await pod.netns.ip("link", "set", "net1", "up");
      for (const family of FAMILIES) {
        await pod.netns.tryExec(
          ...[
            "ip",
            "address",
            "replace",
            interfaceAddressIn(7, family, 100),
          ] as [string, ...string[]],
          ...["dev", "net1"],
        );
        await pod.netns.tryExec(
          ...[
            "ip",
            "route",
            "replace",
            "default",
            "via",
            addressIn(7, family, 1),
          ] as [string, ...string[]],
          ...["dev", "net1", "table", "101", "proto", "32"],
        );
      }
    }
    await lab.ok("ADD", pod, { ifname: "net1" });
    await lab.ok("CHECK", pod, { ifname: "net1" });
  }
});

netnsTest(
  "coordinator: GC takes the link of a pod that is in no list and has lost its interface",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const living = await lab.joined([ETH0]);
    const listed = await lab.joined([{ ...ETH0, number: 101 }]);
    const lost = await lab.joined([{ ...ETH0, number: 102 }]);
    for (const { netns } of [listed, lost]) {
      await netns.ip("link", "delete", "eth0");
    }
    await lab.ok("GC", living, {
      prevResult: null,
      config: {
        "cni.dev/valid-attachments": [
          { containerID: listed.containerId, ifname: "eth0" },
        ],
      },
    });
    const links = (await stateOf(lab.host)).join("\n");
    assert.match(links, new RegExp(living.containerId));
    assert.match(links, new RegExp(listed.containerId));
    assert.doesNotMatch(links, new RegExp(lost.containerId));
    assert.match(
      lab.warnings.join("\n"),
      new RegExp(`Kept a pair.*${living.containerId}`),
    );
  },
);
