// Interfaces in any order and by any names, configurations and results of any kind.
import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { FAMILIES } from "../../lib/inet/mod.ts";
import {
  CoordinatorLab,
  type LabPod,
  NETWORKS,
  type NicSpec,
  ours,
  reaches,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

/** As tools and people name them: no number, the longest, one that counts otherwise. */
const NAMES = ["storage", "ens7f0np0v12345", "net7"] as const;
const NICS: readonly NicSpec[] = NETWORKS.map((network, i) => ({
  name: NAMES[i] ?? "",
  network,
  number: 50 + i,
}));

function orders<T>(of: readonly T[]): T[][] {
  if (of.length < 2) return [[...of]];
  return of.flatMap((first) =>
    orders(of.filter((other) => other !== first))
      .map((rest) => [first, ...rest])
  );
}

/** All of a pod and of its host that the coordinator may have changed. */
async function state(lab: CoordinatorLab, { netns }: LabPod) {
  return [...await stateOf(netns), ...await stateOf(lab.host)];
}

netnsTest(
  "coordinator: interfaces of an overlay pod are added and deleted in every order, by any names",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    for (const [i, order] of orders(NICS).entries()) {
      const nics = order.map((nic) => ({
        ...nic,
        number: nic.number + 10 * i,
      }));
      const pod = await lab.joined(nics, { overlay: 5 + i });
      const rules = await pod.netns.ip("-4", "rule");
      const tables = [...rules.matchAll(/lookup (10[1-9])/g)].map(([, t]) => t);
      assert.deepEqual(tables.sort(), ["101", "102", "103"], rules);
      for (const { name: ifname, network, number } of nics) {
        const address = `10.${network}.0.${number}`;
        assert.ok(await reaches(lab.host, address), `host to ${address}`);
        const far = network === 6 ? "10.7.0.1" : "10.6.0.1";
        const way = await pod.netns.ip("route", "get", far, "from", address);
        assert.match(way, new RegExp(` dev ${ifname} `));
        await lab.ok("CHECK", pod, { ifname });
      }
      for (const { name: ifname } of nics) await lab.ok("DEL", pod, { ifname });
      assert.deepEqual(ours(await state(lab, pod)), [], `${order}`);
    }
  },
);

netnsTest(
  "coordinator: the first interface has the name that is configured",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const [first, second] = NICS as readonly [NicSpec, NicSpec];
    const config = { podDefaultCniNic: first.name, podRPFilter: 1 };
    const pod = await lab.joined([first, second], { config });
    for (const { network, number, name: ifname } of [first, second]) {
      for (
        const address of [
          `10.${network}.0.${number}`,
          `fd00:10:${network}::${number}`,
        ]
      ) {
        assert.ok(await reaches(lab.host, address), address);
      }
      await lab.ok("CHECK", pod, { ifname, config });
    }
    for (const { name: ifname } of [second, first]) {
      await lab.ok("DEL", pod, { ifname, config });
    }
    assert.deepEqual(ours(await state(lab, pod)), []);
  },
);

netnsTest(
  "coordinator: an interface beside a first one without a default route keeps its routes",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([]);
    await lab.addOverlay(pod.netns, 5);
    await pod.netns.ip("route", "delete", "default");
    const [nic] = NICS as readonly [NicSpec];
    await lab.addNic(pod.netns, nic);
    await lab.ok("ADD", pod, { ifname: nic.name });
    await lab.ok("CHECK", pod, { ifname: nic.name });
    assert.doesNotMatch(await pod.netns.ip("rule"), /proto 32/);
    const routes = await pod.netns.ip("route");
    assert.match(routes, new RegExp(`^default via 10.6.0.1 dev ${nic.name}`));
    assert.ok(await reaches(lab.host, "10.6.0.50"));
  },
);

netnsTest(
  "coordinator: a destination that is an interface's own network keeps the kernel's route, before and after DEL",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.pod([]);
    await lab.addOverlay(pod.netns, 5);
    await lab.addNic(pod.netns, { name: "net1", network: 7, number: 100 });
    const network = "10.7.0.0/24";
    const way = async () => await pod.netns.ip("route", "show", network);
    const before = await way();
    const call = {
      ifname: "net1",
      config: { hijackCIDR: [network, "fd00:10:7::/64", "10.7.0.128/25"] },
    };
    await lab.ok("ADD", pod, call);
    assert.match(
      lab.warnings.join(),
      /of the pod.s own is not sent.*10\.7\.0\.0\/24/,
    );
    await lab.ok("CHECK", pod, call);
    assert.equal(await way(), before);
    const part = await pod.netns.ip("route", "get", "10.7.0.130");
    assert.match(part, / dev eth0 /);
    await lab.ok("DEL", pod, call);
    assert.equal(await way(), before);
  },
);

netnsTest(
  "coordinator: a destination that several interfaces have a route to is reached by the one whose address is used",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([{ name: "eth0", network: 6, number: 100 }]);
    const others = NICS.slice(1);
    for (const nic of others) {
      const { name: ifname, network } = nic;
      await lab.addNic(pod.netns, nic);
      await pod.netns.ip(
        ...["route", "append", "198.18.0.0/15"],
        ...["via", `10.${network}.0.1`, "dev", ifname],
      );
      await lab.ok("ADD", pod, { ifname });
    }
    for (const { name: ifname, network, number } of others) {
      const from = `10.${network}.0.${number}`;
      const far = ["route", "get", "198.18.0.1", "from", from];
      assert.match(await pod.netns.ip(...far), new RegExp(` dev ${ifname} `));
      await lab.ok("CHECK", pod, { ifname });
    }
  },
);

netnsTest(
  "coordinator: DEL takes the policy routes of an interface that stays",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([{ name: "eth0", network: 6, number: 100 }]);
    const policyRoutes = [{ dst: "198.18.0.0/15", gw: "10.6.0.1" }];
    for (const command of ["ADD", "ADD", "CHECK"] as const) {
      await lab.ok(command, pod, { config: { policyRoutes } });
    }
    const routes = () => pod.netns.ip("route", "show", "198.18.0.0/15");
    assert.match(await routes(), /via 10\.6\.0\.1 dev eth0/);
    await lab.ok("DEL", pod);
    assert.equal(await routes(), "");
  },
);

/** Values for each field: that work, that do not, and that the kernel alone refuses. */
const FIELDS: Readonly<Record<string, readonly unknown[]>> = {
  mode: ["auto", "underlay", "overlay", "disabled", "other", 1],
  podDefaultCniNic: ["eth0", "net1", "none"],
  podDefaultRouteNic: ["eth0", "net1", "none"],
  tunePodRoutes: [true, false, "no"],
  overlayPodCIDR: [["10.244.0.0/16"], ["0.0.0.0/0"], ["x"], ["fd00:9::/64"]],
  serviceCIDR: [[], ["10.7.0.0/24"], ["10.6.0.1/32"], null],
  hijackCIDR: [["169.254.20.10"], ["10.6.0.0/24", "10.6.0.0/24"], [7]],
  policyRoutes: [
    [{ dst: "198.18.0.0/15", gw: "10.6.0.1" }],
    [{ dst: "198.18.0.0/15", gw: "203.0.113.1" }],
    [{ dst: "0.0.0.0/0", gw: "10.7.0.1" }],
    [{ dst: "2001:2::/48", gw: "fd00:10:6::1" }, { dst: "" }],
  ],
  hostRuleTable: [200, 1, 4294967295, 254, -1],
  podRPFilter: [-1, 1, 2, 3],
  txQueueLen: [1, 4294967295, -5],
  podMACPrefix: ["0a:1b", "0a-1b", "01:10", "00:00"],
  vethLinkAddress: ["169.254.200.1", "10.6.0.100", "0.0.0.0", "fd00::1"],
  vethMTU: [68, 1279, 9000, 65535, 67],
};
const RESULTS: readonly (JsonObject | null)[] = [
  null,
  {},
  { cniVersion: "1.1.0", ips: [{ address: "10.9.9.9/24" }], more: [[]] },
  { cniVersion: "1.1.0", ips: "none", interfaces: 5 },
  { cniVersion: "0.2.0", ip4: { ip: "10.0.0.1/8" } },
];

const CONFIGS = fc.uniqueArray(
  fc.constantFrom(...Object.keys(FIELDS)).chain((key) =>
    fc.tuple(fc.constant(key), fc.constantFrom(...FIELDS[key] ?? []))
  ),
  { selector: ([key]) => key, maxLength: 4 },
).map((entries) => Object.fromEntries(entries) as JsonObject);

netnsTest(
  "coordinator: any configuration and result joins an interface whole, or leaves all as it was",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const places = {
      underlay: {
        ifname: "eth0",
        pod: await lab.pod([{ name: "eth0", network: 6, number: 100 }]),
      },
      overlay: { ifname: "net1", pod: await lab.pod([]) },
    };
    const overlay = places.overlay.pod.netns;
    await lab.addOverlay(overlay, 5);
    await lab.addNic(overlay, { name: "net1", network: 7, number: 100 });
    const counts = { joined: 0, refused: 0 };
    const where = fc.constantFrom("underlay" as const, "overlay" as const);
    // Other pods need it; it stays.
    const isRule = (line: string) => /^1000: from all lookup/.test(line);
    const rest = async (pod: LabPod) =>
      (await state(lab, pod)).filter((line) => !isRule(line));
    await fc.assert(
      fc.asyncProperty(
        ...[where, CONFIGS, fc.constantFrom(...RESULTS)],
        async (place, config, prevResult) => {
          const { pod, ifname } = places[place];
          const before = await rest(pod);
          const call = { ifname, config, prevResult };
          const { stdout, exitCode } = await lab.call("ADD", pod, call);
          if (exitCode === 0) {
            counts.joined++;
            await lab.ok("CHECK", pod, { ifname, config });
            await lab.ok("DEL", pod, { ifname });
            assert.deepEqual(ours(await rest(pod)), []);
            return;
          }
          counts.refused++;
          const { code, msg } = JSON.parse(stdout);
          assert.ok([1, 6, 7, 11, 999].includes(code), stdout);
          assert.notEqual(msg, "");
          assert.deepEqual(await rest(pod), before, stdout);
        },
      ),
      { numRuns: 60 },
    );
    assert.ok(counts.joined > 5 && counts.refused > 5, JSON.stringify(counts));
  },
);

/** Random numbers are these first. */
function drawing(drawn: number[]): Disposable {
  const chance = crypto.getRandomValues;
  crypto.getRandomValues = <T extends ArrayBufferView>(array: T): T => {
    const next = array instanceof Uint32Array ? drawn.shift() : undefined;
    if (next === undefined) return chance.call(crypto, array) as T;
    (array as unknown as Uint32Array).fill(next);
    return array;
  };
  return { [Symbol.dispose]: () => void (crypto.getRandomValues = chance) };
}

netnsTest(
  "coordinator: an index that another pod's link has is not taken, and that link stays as it is",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const [nic] = NICS as readonly [NicSpec];
    const drawn = [7, 7, 11];
    using _drawing = drawing(drawn);
    const first = await lab.joined([{ ...nic, name: "eth0" }]);
    const before = await lab.host.ip("-d", "link");
    const other = { ...nic, name: "eth0", number: nic.number + 1 };
    const second = await lab.joined([other]);
    assert.deepEqual(drawn, []);
    const after = await lab.host.ip("-d", "link");
    const aliases = (text: string) => text.match(/alias COIL-COORD:\S+/g);
    assert.equal(aliases(before)?.length, 1);
    // Past those of lib/podnet, whose links must not lose their aliases either.
    assert.match(before, /^1879048199: veth/m);
    assert.deepEqual(aliases(after)?.slice(0, 1), aliases(before));
    for (const pod of [first, second]) {
      await lab.ok("CHECK", pod, { ifname: "eth0" });
      await lab.ok("DEL", pod, { ifname: "eth0" });
    }
    assert.deepEqual(ours(await state(lab, second)), []);
  },
);

netnsTest(
  "coordinator: an index that another link of the pod has is not taken",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const [nic] = NICS as readonly [NicSpec];
    const pod = await lab.pod([{ ...nic, name: "eth0" }]);
    await pod.netns.ip(
      ...["link", "add", "taken", "index", "1879048198", "type", "veth"],
      ...["peer", "name", "other"],
    );
    const drawn = [7, 11];
    using _drawing = drawing(drawn);
    await lab.ok("ADD", pod, { ifname: "eth0" });
    assert.deepEqual(drawn, []);
    await lab.ok("CHECK", pod, { ifname: "eth0" });
    assert.match(await pod.netns.ip("link"), /^1879048198: taken/m);
  },
);
