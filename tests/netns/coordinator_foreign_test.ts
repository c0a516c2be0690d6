// Rules and routes of other programs in the coordinator's place: left, and reported.
import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import {
  addressIn,
  CoordinatorLab,
  fetched,
  type LabPod,
  type NicSpec,
  ours,
  reaches,
  serving,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 110 };
const NET2: NicSpec = { name: "net2", network: 8, number: 110 };

/** Runs `ip` with the words of each line. */
async function configure(
  netns: LabPod["netns"],
  lines: readonly string[],
): Promise<void> {
  for (const line of lines) await netns.ip(...line.split(" "));
}

netnsTest(
  "coordinator: rules and tables of others keep their place",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([]);
    await lab.addOverlay(pod.netns, 5);
    for (const nic of [NET1, NET2]) await lab.addNic(pod.netns, nic);
    await configure(pod.netns, [
      "rule add pref 1101 from 192.0.2.1 lookup 7",
      "route add 192.0.2.0/24 dev net1 table 102",
    ]);
    await lab.ok("ADD", pod, { ifname: "net1" });
    await lab.ok("DEL", pod, { ifname: "net1" });
    const rules = await pod.netns.ip("rule");
    assert.match(rules, /1101:\s+from 192\.0\.2\.1 lookup 7/);
    assert.doesNotMatch(rules, /proto 32/);
    assert.match(
      await pod.netns.ip("route", "show", "table", "102"),
      /192\.0\.2\.0/,
    );
    lab.warnings = [];
    await lab.ok("ADD", pod, { ifname: "net1" });
    assert.match(
      await pod.netns.ip("rule"),
      /1103:\s+from 10\.7\.0\.110 lookup 103/,
    );
    assert.deepEqual(lab.warnings.slice(1), [
      "Another program has rules or routes in the coordinator's place: they stay net1 " +
      "pod: rule pref 1101 from 192.0.2.1/32 lookup 7 proto 0," +
      "pod: route 192.0.2.0/24 dev net1 table 102 proto 3 scope link",
    ]);
  },
);

netnsTest(
  "coordinator: what others have where answers to the host are looked up stays, and counts",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.pod([ETH0]);
    // As the plugin sbr, which begins with table 100, and one that likes round numbers.
    await configure(pod.netns, [
      "rule add pref 1000 from 192.0.2.1 lookup 7",
      "route add default via 10.6.0.1 dev eth0 table 100",
      "-6 route add default via fd00:10:6::1 dev eth0 metric 1024 table 100",
      // An Egress' of Coil.
      "rule add pref 1000 fwmark 2 lookup 1002 proto 30",
    ]);
    await configure(lab.host, ["rule add pref 1000 from 192.0.2.1 lookup 8"]);
    const before = {
      pod: await stateOf(pod.netns),
      host: await stateOf(lab.host),
    };
    await lab.ok("ADD", pod);
    const [warning = "", ...more] = lab.warnings;
    assert.deepEqual(more, []);
    assert.deepEqual(warning.split(/ eth0 (?=pod)|,/), [
      "Another program has rules or routes in the coordinator's place: they stay",
      "pod: rule pref 1000 from 192.0.2.1/32 lookup 7 proto 0",
      "host: rule pref 1000 from 192.0.2.1/32 lookup 8 proto 0",
      "pod: route default via 10.6.0.1 dev eth0 table 100 proto 3",
      "pod: route default via fd00:10:6::1 dev eth0 table 100 proto 3 metric 1024",
    ]);
    const present = {
      pod: await stateOf(pod.netns),
      host: await stateOf(lab.host),
    };
    for (const place of ["pod", "host"] as const) {
      const gone = before[place].filter((line) =>
        !present[place].includes(line) && /^1000:|table 100/.test(line)
      );
      assert.deepEqual(gone, [], place);
    }
    await lab.ok("CHECK", pod);
    await serving(lab, async () => {
      for (const family of FAMILIES) {
        assert.ok(await reaches(lab.host, addressIn(6, family, 100)), family);
        assert.match(await fetched(pod.netns, family), /10/);
      }
    });
    await lab.ok("DEL", pod);
    const left = [...await stateOf(pod.netns), ...await stateOf(lab.host)];
    assert.deepEqual(ours(left), []);
    const isForeign = (line: string) => /192\.0\.2\.1|table 100/.test(line);
    assert.deepEqual(
      left.filter(isForeign),
      [...before.pod, ...before.host].filter(isForeign),
    );
  },
);

netnsTest(
  "coordinator: what upstream's has made the same way is not reported",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await configure(lab.host, ["rule add pref 1000 lookup 500"]);
    await lab.joined([ETH0]);
    assert.deepEqual(lab.warnings, []);
  },
);
