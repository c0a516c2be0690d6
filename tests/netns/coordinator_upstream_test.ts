// What upstream's coordinator makes of a pod, and ours: all differences are here, with their reasons.
import assert from "node:assert/strict";
import { untilPasses } from "../../lib/async/testing.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { AgentStub, ensurePeerCoordinator } from "../lab/peer_coordinator.ts";
import {
  CoordinatorLab,
  interfaceAddressIn,
  type LabPod,
  type NicSpec,
  SERVICES,
  stateOf,
} from "./coordinator_lab.ts";
import { type Add, addOurs, addUpstreams } from "./coordinator_peer.ts";
import { netnsTest, type TempNetns } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };

/** Rules, routes and neighbours, without who made them, metrics, and names and numbers that chance makes. */
async function facts(lab: CoordinatorLab, pod: LabPod): Promise<Set<string>> {
  const found = new Set<string>();
  const places: readonly (readonly [string, TempNetns])[] = [
    ["pod", pod.netns],
    ["host", lab.host],
  ];
  for (const [place, netns] of places) {
    const ends = new Map(
      (await netns.ipJson("link", "show")).map(({ ifname }) =>
        [`${ifname}`, endName(`${ifname}`)] as const
      ),
    );
    const add = (family: string, text: string) =>
      found.add(`${place}${family === "-6" ? " -6" : ""} ${text}`);
    for (const family of ["-4", "-6"]) {
      for (const row of await netns.ipJson(family, "rule")) {
        add(family, ruleText(row));
      }
      const routes = await netns.ipJson(
        family,
        "route",
        "show",
        "table",
        "all",
      );
      for (const row of routes) {
        const text = routeText(row, ends);
        if (text !== undefined) add(family, text);
      }
      const known = await netns.ipJson(
        ...[family, "neighbour", "show", "nud", "permanent"],
      );
      for (const { dst, dev } of known) {
        add(family, `neighbour ${dst} dev ${ends.get(`${dev}`)}`);
      }
    }
  }
  return found;
}

/** The host's ends of pods have names of their own. */
function endName(name: string): string {
  return /^(veth[0-9a-f]{11}|cali\d+)$/.test(name) ? "END" : name;
}

function ruleText(row: JsonRow): string {
  const from = row["src"] === "all" ? "" : ` from ${row["src"]}`;
  const mark = row["fwmark"] === undefined
    ? ""
    : ` fwmark ${row["fwmark"]}/${row["fwmask"] ?? "0xffffffff"}`;
  return `rule ${row["priority"]}:${from}${mark} lookup ${row["table"]}`;
}

/** None of what the kernel makes by itself. */
function routeText(
  row: JsonRow,
  ends: ReadonlyMap<string, string>,
): string | undefined {
  const { dst, dev, gateway, prefsrc, table = "main" } = row;
  const isKernels = table === "local" || `${dst}`.startsWith("fe80") ||
    `${dst}`.startsWith("ff00") || row["type"] === "multicast";
  if (isKernels) return undefined;
  const via = gateway === undefined ? "" : ` via ${gateway}`;
  const src = prefsrc === undefined ? "" : ` src ${prefsrc}`;
  return `route ${dst}${via} dev ${ends.get(`${dev}`)} table ${table}${src}`;
}

type JsonRow = Readonly<Record<string, unknown>>;

interface Case {
  readonly nics: readonly NicSpec[];
  readonly overlay?: boolean;
  /** What only upstream has, and why. */
  readonly onlyUpstream: Readonly<Record<string, string>>;
  /** What only we have, and why. */
  readonly onlyOurs: Readonly<Record<string, string>>;
}

const MARK =
  "another bit, and only that one: meshes use 0x1, and set other bits of marks";
const SOURCE =
  "given, since the host's end of an overlay may have a link-local address, which pods answer by other links";
const REPLIES =
  "table 100 leads to the host by itself; upstream puts that into the table of an interface that it does not have yet";
const FIRST =
  "the first interface has a table of its own, so that its answers leave by it, also when another one has the default route";
const PRIORITY =
  "after the mark's rule: upstream's come before it, so what a second interface gets by a NodePort is answered the wrong way";
const TABLE = "the interface's table, too: upstream forgets the first one";
const GATEWAY =
  "upstream takes the gateway of the cluster's network for an address of the host, ours the node's own";

const MARK_RULES = {
  onlyUpstream: {
    "pod rule 1000: fwmark 0x1/0xffffffff lookup 100": MARK,
    "pod -6 rule 1000: fwmark 0x1/0xffffffff lookup 100": MARK,
  },
  onlyOurs: {
    "pod rule 1000: fwmark 0x10000000/0x90000000 lookup 100": MARK,
    "pod -6 rule 1000: fwmark 0x10000000/0x90000000 lookup 100": MARK,
    "pod route 10.6.0.10 dev veth0 table 100 src 10.6.0.100": REPLIES,
    "pod -6 route fd00:10:6::10 dev veth0 table 100": REPLIES,
  },
};

const CASES: Readonly<Record<string, Case>> = {
  "an underlay pod with one interface": {
    nics: [ETH0],
    onlyUpstream: {
      ...MARK_RULES.onlyUpstream,
      "host route 10.6.0.100 dev END table 500": SOURCE,
      "pod route 10.6.0.10 dev veth0 table 101 src 10.6.0.100": REPLIES,
      "pod -6 route fd00:10:6::10 dev veth0 table 101": REPLIES,
    },
    onlyOurs: {
      ...MARK_RULES.onlyOurs,
      "host route 10.6.0.100 dev END table 500 src 10.6.0.10": SOURCE,
    },
  },
  "an underlay pod with two interfaces": {
    nics: [ETH0, NET1],
    onlyUpstream: {
      ...MARK_RULES.onlyUpstream,
      "host route 10.6.0.100 dev END table 500": SOURCE,
      "host route 10.7.0.100 dev END table 500": SOURCE,
      "pod rule 999: from 10.7.0.100 lookup 101": PRIORITY,
      "pod -6 rule 999: from fd00:10:7::100 lookup 101": PRIORITY,
    },
    onlyOurs: {
      ...MARK_RULES.onlyOurs,
      "host route 10.6.0.100 dev END table 500 src 10.6.0.10": SOURCE,
      "host route 10.7.0.100 dev END table 500 src 10.6.0.10": SOURCE,
      "pod rule 1101: from 10.7.0.100 lookup 101": PRIORITY,
      "pod -6 rule 1101: from fd00:10:7::100 lookup 101": PRIORITY,
      "pod rule 1200: from 10.6.0.100 lookup 200": FIRST,
      "pod route default via 10.6.0.1 dev eth0 table 200": FIRST,
      "pod route 10.6.0.0/24 dev eth0 table 200 src 10.6.0.100": FIRST,
      "pod route 10.6.0.10 dev veth0 table 200 src 10.6.0.100": FIRST,
      "pod route 10.233.0.0/18 via 10.6.0.10 dev veth0 table 200 src 10.6.0.100":
        FIRST,
      "pod -6 rule 1200: from fd00:10:6::100 lookup 200": FIRST,
      "pod -6 route default via fd00:10:6::1 dev eth0 table 200": FIRST,
      "pod -6 route fd00:10:6::/64 dev eth0 table 200": FIRST,
      "pod -6 route fd00:10:6::10 dev veth0 table 200": FIRST,
      "pod -6 route fd00:233::/116 via fd00:10:6::10 dev veth0 table 200":
        FIRST,
    },
  },
  "an overlay pod with a further interface": {
    nics: [NET1],
    overlay: true,
    onlyUpstream: {
      "host route 10.7.0.100 dev END table 500": SOURCE,
      "pod rule 32764: from 10.244.1.5 lookup 100": PRIORITY,
      "pod rule 32765: from 10.7.0.100 lookup 101": PRIORITY,
      "pod -6 rule 32764: from fd00:244::5 lookup 100": PRIORITY,
      "pod -6 rule 32765: from fd00:10:7::100 lookup 101": PRIORITY,
      "pod neighbour 169.254.1.1 dev eth0": GATEWAY,
      "pod route 169.254.1.1 dev eth0 table 101 src 10.244.1.5": GATEWAY,
      "pod route 10.233.0.0/18 via 169.254.1.1 dev eth0 table main src 10.244.1.5":
        GATEWAY,
    },
    onlyOurs: {
      "host route 10.7.0.100 dev END table 500 src 10.6.0.10": SOURCE,
      "pod rule 1100: from 10.244.1.5 lookup 100": PRIORITY,
      "pod rule 1101: from 10.7.0.100 lookup 101": PRIORITY,
      "pod -6 rule 1100: from fd00:244::5 lookup 100": PRIORITY,
      "pod -6 rule 1101: from fd00:10:7::100 lookup 101": PRIORITY,
      "pod route 10.233.0.0/18 via 10.6.0.10 dev eth0 table main src 10.244.1.5":
        GATEWAY,
      "pod route 10.233.0.0/18 via 10.6.0.10 dev eth0 table 101 src 10.244.1.5":
        TABLE,
      "pod -6 route fd00:233::/116 via fd00:10:6::10 dev eth0 table 101": TABLE,
    },
  },
};

async function outcome(
  { nics, overlay = false }: Case,
  add: Add,
): Promise<Set<string>> {
  await using lab = await CoordinatorLab.start(FAMILIES);
  const pod = await lab.pod([]);
  if (overlay) await lab.addOverlay(pod.netns, 5);
  for (const nic of nics) {
    await lab.addNic(pod.netns, nic);
    const addresses = FAMILIES.map((family) =>
      interfaceAddressIn(nic.network, family, nic.number)
    );
    await add(lab, pod, { name: nic.name, addresses });
  }
  return await facts(lab, pod);
}

for (const [name, each] of Object.entries(CASES)) {
  netnsTest(
    `coordinator: ${name} has what upstream's has, but for what is listed here`,
    async () => {
      const plugin = await ensurePeerCoordinator();
      const directory = await Deno.makeTempDir();
      const serviceCIDR = Object.values(SERVICES);
      await using _agent = await AgentStub.start({ serviceCIDR });
      const ours = await outcome(each, addOurs);
      const theirs = await outcome(each, addUpstreams(plugin, directory));
      await Deno.remove(directory, { recursive: true });
      assert.deepEqual(
        {
          onlyUpstream: [...theirs.difference(ours)].sort(),
          onlyOurs: [...ours.difference(theirs)].sort(),
        },
        {
          onlyUpstream: Object.keys(each.onlyUpstream).sort(),
          onlyOurs: Object.keys(each.onlyOurs).sort(),
        },
      );
    },
  );
}

/** What upstream's has made on the host for a pod, but for its rule, which stays. */
async function ofPods(lab: CoordinatorLab): Promise<string[]> {
  const lines = await stateOf(lab.host);
  return lines.filter((line) => /table 500|PERMANENT/.test(line));
}

for (const mode of ["underlay", "overlay"] as const) {
  netnsTest(
    `coordinator: DEL and GC of a pod that upstream's has joined, ${mode}`,
    async () => {
      const plugin = await ensurePeerCoordinator();
      const directory = await Deno.makeTempDir();
      const serviceCIDR = Object.values(SERVICES);
      await using _agent = await AgentStub.start({ serviceCIDR });
      const add = addUpstreams(plugin, directory);
      await using lab = await CoordinatorLab.start(FAMILIES);
      const nics = mode === "overlay" ? [NET1] : [ETH0, NET1];
      const pod = await lab.pod([]);
      if (mode === "overlay") await lab.addOverlay(pod.netns, 5);
      for (const nic of nics) {
        await lab.addNic(pod.netns, nic);
        const addresses = FAMILIES.map((family) =>
          interfaceAddressIn(nic.network, family, nic.number)
        );
        await add(lab, pod, { name: nic.name, addresses });
      }
      const valid = [{ containerID: pod.containerId, ifname: "eth0" }];
      const gc = { "cni.dev/valid-attachments": valid };
      const before = await ofPods(lab);
      assert.notDeepEqual(before, []);
      await lab.ok("GC", pod, { prevResult: null, config: gc });
      assert.deepEqual(await ofPods(lab), before);
      for (const nic of nics.toReversed()) {
        for (let i = 0; i < 2; i++) {
          await lab.ok("DEL", pod, { ifname: nic.name, prevResult: null });
        }
        // As the plugin before does then.
        await pod.netns.ip("link", "delete", nic.name);
      }
      const left = (await ofPods(lab)).join("\n");
      assert.doesNotMatch(left, /PERMANENT/);
      // Its routes go with the pod, when a runtime removes that.
      await pod.netns[Symbol.asyncDispose]();
      await untilPasses(async () => assert.deepEqual(await ofPods(lab), []));
      await Deno.remove(directory, { recursive: true });
    },
  );
}
