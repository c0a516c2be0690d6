import type { JsonObject } from "../../json/mod.ts";
import assert from "node:assert/strict";
import { formatTable } from "../../../tests/lab/plan_text/nft_table.ts";
import { Address, FAMILIES, type Family, Prefix } from "../../inet/mod.ts";
import { type Link, MAIN_TABLE } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { parseGiven } from "../config/config.ts";
import { settingsOf } from "../config/defaults.ts";
import type { ResolvedMode } from "./mode.ts";
import { planMoves } from "./move_routes.ts";
import { type PlanInput, planNic } from "./plan.ts";
import { REPLY_TABLE } from "./reply_table.ts";
import { addressesOf, type SideState } from "../state/state.ts";
import { renderPlan } from "../testing.ts";
import { planVeth } from "./veth.ts";

/** Each interface's addresses and gateways by family. */
const NICS = {
  underlay: {
    eth0: {
      ipv4: ["10.6.0.100/24", "10.6.0.1"],
      ipv6: ["fd00:10:6::100/64", "fd00:10:6::1"],
    },
    net1: {
      ipv4: ["10.7.0.100/24", "10.7.0.1"],
      ipv6: ["fd00:10:7::100/64", "fd00:10:7::1"],
    },
  },
  overlay: {
    eth0: {
      ipv4: ["10.244.1.5/32", "169.254.1.1"],
      ipv6: ["fd00:244::5/128", "fe80::1"],
    },
    net1: {
      ipv4: ["10.7.0.110/24", "10.7.0.1"],
      ipv6: ["fd00:10:7::110/64", "fd00:10:7::1"],
    },
  },
} as const;

const CONFIG: JsonObject = {
  overlayPodCIDR: ["10.244.0.0/16", "fd00:244::/56"],
  serviceCIDR: ["10.233.0.0/18", "fd00:233::/116"],
  hijackCIDR: ["169.254.0.0/16"],
};

const VETH = await planVeth({ containerId: "cid0", ifname: "eth0" }, {
  mtu: 1500,
});

interface Case {
  readonly nic: "eth0" | "net1";
  readonly mode: ResolvedMode;
  readonly families?: readonly Family[];
  readonly host?: readonly string[];
  readonly config?: JsonObject;
}

const CASES: Readonly<Record<string, Case>> = {
  underlay_dual: { nic: "eth0", mode: "underlay" },
  underlay_ipv4: { nic: "eth0", mode: "underlay", families: ["ipv4"] },
  underlay_ipv6: { nic: "eth0", mode: "underlay", families: ["ipv6"] },
  underlay_host_without_ipv6: {
    nic: "eth0",
    mode: "underlay",
    host: ["10.6.0.10"],
  },
  underlay_second: { nic: "net1", mode: "underlay" },
  underlay_second_default: {
    nic: "net1",
    mode: "underlay",
    families: ["ipv4"],
    config: { podDefaultRouteNic: "net1" },
  },
  underlay_settings: {
    nic: "eth0",
    mode: "underlay",
    families: ["ipv4"],
    config: {
      txQueueLen: 2000,
      podMACPrefix: "0a:1b",
      podRPFilter: -1,
      vethMTU: 1400,
      vethLinkAddress: "169.254.200.1",
      hostRuleTable: 200,
      policyRoutes: [
        { dst: "198.18.0.0/15", gw: "10.6.0.1" },
        { dst: "2001:2::/48", gw: "fd00:10:6::1" },
      ],
    },
  },
  overlay_dual: { nic: "net1", mode: "overlay" },
  overlay_default: {
    nic: "net1",
    mode: "overlay",
    families: ["ipv4"],
    config: { podDefaultRouteNic: "net1" },
  },
  overlay_untuned: {
    nic: "net1",
    mode: "overlay",
    families: ["ipv4"],
    config: { tunePodRoutes: false },
  },
  overlay_policy_routes: {
    nic: "net1",
    mode: "overlay",
    families: ["ipv4"],
    config: { policyRoutes: [{ dst: "198.18.0.0/15", gw: "10.7.0.1" }] },
  },
};

for (const [name, wanted] of Object.entries(CASES)) {
  Deno.test(`planNic() plans ${name} as in the golden file`, async () => {
    const input = inputOf(wanted);
    const isFirst = wanted.nic === "eth0";
    const veth = isFirst ? { ...VETH, mtu: input.settings.vethMtu } : undefined;
    const text = renderPlan({ veth, steps: planNic(input) }, { netns: "POD" });
    await assertGolden(`${name}.txt`, text);
  });
}

Deno.test("REPLY_TABLE is as in the golden file", async () => {
  await assertGolden("replies.nft", formatTable(REPLY_TABLE));
});

function inputOf(wanted: Case): PlanInput {
  const { nic, mode, families = FAMILIES } = wanted;
  const settings = settingsOf([parseGiven({ ...CONFIG, ...wanted.config })]);
  const pod = podOf(wanted);
  const own = addressesOf(pod, nic === "eth0" ? 2 : 3);
  const hosts = wanted.host ?? ["10.6.0.10", "fd00:10:6::10"];
  return {
    settings,
    nic,
    mode,
    addresses: own,
    families,
    firstAddresses: addressesOf(pod, 2),
    hostAddresses: hosts.map(Address.parse),
    inner: mode === "underlay"
      ? { device: VETH.podName, mac: VETH.podMac }
      : { device: "eth0", mac: "02:00:00:00:00:04" },
    outer: mode === "underlay"
      ? { device: VETH.hostName, mac: VETH.hostMac }
      : { device: "cali111", mac: "02:00:00:00:00:03" },
    moves: planMoves({ nic, mode, families, pod, settings }),
  };
}

/** A pod as the plugin before leaves it. */
function podOf({ nic, mode, families = FAMILIES }: Case): SideState {
  const nics = (nic === "eth0" ? ["eth0"] : ["eth0", "net1"] as const)
    .map((name, i) => ({
      name,
      index: i + 2,
      of: NICS[mode][name === "eth0" ? "eth0" : "net1"],
    }));
  const each = nics.flatMap(({ of, ...rest }) =>
    families.map((family) => ({ ...rest, family, text: of[family] }))
  );
  return {
    links: [{ name: "lo", index: 1 }, ...nics].map(link),
    addresses: each.map(({ index, text: [cidr] }) => addressEntry(index, cidr)),
    routes: each.flatMap(({ index, family, text: [cidr, gateway] }) => {
      const common = {
        family,
        index,
        table: MAIN_TABLE,
        type: "unicast",
      } as const;
      return [
        {
          ...common,
          destination: undefined,
          gateway: Address.parse(gateway),
          protocol: 3,
          scope: "global",
          metric: family === "ipv6" ? 1024 : undefined,
        },
        {
          ...common,
          destination: Prefix.parse(cidr),
          protocol: 2,
          scope: family === "ipv4" ? "link" : "global",
          source: family === "ipv4"
            ? Address.parse(cidr.replace(/\/.*/, ""))
            : undefined,
          metric: family === "ipv6" ? 256 : undefined,
        },
      ] as const;
    }),
    rules: [],
    neighbours: [],
  };
}

function link({ name, index }: { name: string; index: number }): Link {
  const rest = { mtu: 1500, up: true, lowerUp: true, group: 0, flags: 0 };
  return { name, index, ...rest };
}

/** COIL_UPDATE_GOLDEN=1 rewrites the files, to be read in the diff. */
async function assertGolden(name: string, text: string): Promise<void> {
  const file = new URL(
    `../../../tests/golden/coordinator/${name}`,
    import.meta.url,
  );
  if (Deno.env.get("COIL_UPDATE_GOLDEN") === "1") {
    await Deno.writeTextFile(file, text);
  }
  assert.equal(text, await Deno.readTextFile(file));
}
