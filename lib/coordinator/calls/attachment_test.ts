import assert from "node:assert/strict";
import type { Given } from "../config/config.ts";
import { settingsOf } from "../config/defaults.ts";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import type { AddressEntry, Link, Route } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import type { Kernel } from "../kernel/ports.ts";
import { COORDINATOR_PROTOCOL } from "../../names/mod.ts";
import {
  FakeNetwork,
  isRefusal,
  linkOf,
  type NetworkState,
} from "../testing.ts";
import {
  type ConfiguredAttachment,
  findEnds,
  modeOf,
  namesOf,
  planAttachment,
} from "./attachment.ts";

const [ETH0, NET1, VETH, NODE] = [2, 4, 3, 9] as const;
const MAC = "02:00:00:00:00:07";
const INNER = linkOf(VETH, { name: "veth0", mac: MAC });
const OUTER = linkOf(7, { name: "vethx", mac: MAC });

function attachmentOf(ifname: string, given: Given = {}): ConfiguredAttachment {
  return { containerId: "cid", ifname, settings: settingsOf([given]) };
}

/** A pod with these links, and others of its state. */
function podWith(
  links: readonly Link[],
  changes: Partial<NetworkState> = {},
): NetworkState {
  return {
    links: [...links],
    addresses: [
      addressEntry(ETH0, "10.6.0.100/24"),
      addressEntry(NET1, "10.7.0.100/24"),
    ],
    rules: [],
    routes: [],
    neighbours: [],
    ...changes,
  };
}

function eth0(changes: Partial<Link> = {}): Link {
  return linkOf(ETH0, { name: "eth0", kind: "macvlan", ...changes });
}

const NET1_LINK = linkOf(NET1, { name: "net1", kind: "macvlan" });

Deno.test("namesOf() has the interface, the first one, the pair's end and the one that is to have the default route", () => {
  const names = (given: Given) => [...namesOf(attachmentOf("net1", given))];
  assert.deepEqual(names({}), ["net1", "eth0", "veth0"]);
  assert.deepEqual(names({ firstNic: "net0", defaultRouteNic: "net2" }), [
    "net1",
    "net0",
    "veth0",
    "net2",
  ]);
});

Deno.test("modeOf() is underlay for the first interface, and for others beside its pair", () => {
  const modes = (links: readonly Link[]) =>
    links.filter(({ name }) => name !== "veth0").map(({ name }) =>
      modeOf(podWith(links), attachmentOf(name))
    );
  assert.deepEqual(modes([eth0(), NET1_LINK, INNER]), ["underlay", "underlay"]);
  assert.deepEqual(modes([NET1_LINK]), ["overlay"]);
});

Deno.test("modeOf() refuses an interface that is not there, or has no address, and a MAC prefix for one without an own MAC address", () => {
  const refused = (link: Link, given: Given, message: RegExp) =>
    assert.throws(
      () => modeOf(podWith([link]), attachmentOf("eth0", given)),
      isRefusal(7, message),
    );
  refused(NET1_LINK, {}, /"eth0" is not in the pod/);
  refused(eth0({ index: 77 }), {}, /no usable IP addresses/);
  const macPrefix = "0a:1b" as Given["macPrefix"];
  refused(eth0({ kind: "ipvlan" }), { macPrefix }, /does not fit/);
  refused(eth0({ mac: undefined }), { macPrefix }, /does not fit/);
  refused(eth0({ mac: "00:00:00:00:00:00" }), { macPrefix }, /does not fit/);
  assert.equal(
    modeOf(podWith([eth0()]), attachmentOf("eth0", { macPrefix })),
    "underlay",
  );
  assert.equal(
    modeOf(podWith([eth0({ kind: "ipvlan" })]), attachmentOf("eth0")),
    "underlay",
  );
});

Deno.test("modeOf() refuses an MTU of the pair that is too small for IPv6, where a pair is made for it", () => {
  const ipv6 = [
    addressEntry(ETH0, "fd00::1/64"),
    addressEntry(NET1, "fd01::1/64"),
  ];
  const modeWith = (
    vethMtu: number,
    { addresses = ipv6, nic = "eth0" }: {
      readonly addresses?: AddressEntry[];
      readonly nic?: string;
    } = {},
  ) => {
    const pod = podWith([eth0(), NET1_LINK, INNER], { addresses });
    return modeOf(pod, attachmentOf(nic, { vethMtu }));
  };
  assert.throws(
    () => modeWith(1279),
    isRefusal(7, /vethMTU 1279 is too small/),
  );
  assert.equal(modeWith(1280), "underlay");
  const addresses = [addressEntry(ETH0, "10.6.0.100/24")];
  assert.equal(modeWith(1279, { addresses }), "underlay");
  assert.equal(modeWith(1279, { nic: "net1" }), "underlay");
});

Deno.test("findEnds() finds the pair of an underlay pod, and an overlay pod's first interface", async () => {
  const ends = async (
    mode: "underlay" | "overlay",
    links: readonly Link[],
    outer: Link | undefined = OUTER,
  ) => {
    const { settings } = attachmentOf("net1");
    const netns = {} as Netns; // handed on
    const outside = {
      findHostEnd: ({ link }: { readonly link: Link }) =>
        Promise.resolve(outer && { ...outer, alias: link.name }),
    };
    const pod = podWith(links);
    const found = await findEnds(outside, { netns }, { mode, settings, pod });
    assert.equal(found.isNew, false);
    return [found.inner.name, found.outer.alias];
  };
  const links = [eth0(), INNER];
  assert.deepEqual(await ends("underlay", links), ["veth0", "veth0"]);
  assert.deepEqual(await ends("overlay", links), ["eth0", "eth0"]);
  const lost = isRefusal(11, /has no end on the host/);
  await assert.rejects(ends("underlay", [eth0()]), lost);
  await assert.rejects(ends("overlay", [INNER]), lost);
  const bare = { ...OUTER, mac: undefined };
  await assert.rejects(ends("overlay", links, bare), lost);
  await assert.rejects(
    ends("overlay", [eth0({ mac: undefined })]),
    lost,
  );
});

/** Plans the pod's first interface, whose pair was just made. */
async function planned(
  { pod = podWith([eth0(), INNER]), given = {}, host = {} }: {
    readonly pod?: NetworkState;
    readonly given?: Given;
    readonly host?: Partial<NetworkState>;
  } = {},
) {
  const warnings: unknown[] = [];
  const side = {
    addresses: [addressEntry(NODE, "10.6.0.10/24")],
    links: [linkOf(NODE, { name: "node" })],
    rules: [],
    routes: [],
    neighbours: [],
    ...host,
  };
  const kernel = {
    pod: new FakeNetwork(pod),
    host: new FakeNetwork(side),
  } as Partial<Kernel> as Kernel; // both are this process's: sysctls are read only
  const { input, steps, state } = await planAttachment(
    { warn: (_message, fields) => warnings.push(fields) },
    kernel,
    {
      attachment: attachmentOf("eth0", given),
      mode: "underlay",
      ends: {
        inner: { ...INNER, mac: MAC },
        outer: { ...OUTER, mac: MAC },
        isNew: true,
      },
      sides: { pod, host: side },
    },
  );
  return { input, steps, state, warnings };
}

Deno.test("planAttachment() knows the addresses, and the pair in place of what was read", async () => {
  const { input, state, warnings } = await planned();
  assert.deepEqual(input.addresses.map(String), ["10.6.0.100"]);
  assert.deepEqual(input.firstAddresses.map(String), ["10.6.0.100"]);
  assert.deepEqual(input.hostAddresses.map(String), ["10.6.0.10"]);
  assert.deepEqual(input.inner, { device: "veth0", mac: MAC });
  assert.deepEqual(input.outer, { device: "vethx", mac: MAC });
  assert.deepEqual(state.pod.links.map(({ name }) => name), ["eth0", "veth0"]);
  assert.deepEqual(state.host.links.map(({ name }) => name), ["vethx"]);
  assert.equal(state.repliesMarked, false);
  assert.deepEqual(warnings, []);
});

Deno.test("planAttachment() keeps the gateway of an earlier call before the host's other addresses", async () => {
  const host = {
    addresses: [
      addressEntry(NODE, "10.6.0.10/24"),
      addressEntry(NODE, "10.6.0.11/24"),
    ],
  };
  const route: Route = {
    family: "ipv4",
    destination: Prefix.parse("10.96.0.0/12"),
    gateway: Address.parse("10.6.0.11"),
    index: VETH,
    table: 254,
    protocol: COORDINATOR_PROTOCOL,
    scope: "global",
    type: "unicast",
  };
  const first = async (changes: Partial<Route>) => {
    const pod = podWith([eth0(), INNER], {
      routes: [{ ...route, ...changes }],
    });
    const { input } = await planned({ pod, host });
    return `${input.hostAddresses[0]}`;
  };
  assert.equal(await first({}), "10.6.0.11");
  assert.equal(await first({ protocol: 3 }), "10.6.0.10");
});

Deno.test("planAttachment() names what the pod does without", async () => {
  const own = Prefix.parse("10.6.0.0/24");
  const { input, warnings } = await planned({
    pod: podWith([eth0(), INNER], {
      addresses: [
        addressEntry(ETH0, "10.6.0.100/24"),
        addressEntry(ETH0, "fd00::1/64"),
        addressEntry(ETH0, "fd00::2/64", { dadFailed: true }),
      ],
      rules: [{ family: "ipv4", priority: 1000, table: 7, protocol: 3 }],
    }),
    given: { serviceCidrs: [own, Prefix.parse("10.96.0.0/12")] },
  });
  assert.deepEqual(input.settings.hijacked.map(String), ["10.96.0.0/12"]);
  assert.deepEqual(input.families, ["ipv4", "ipv6"]);
  assert.deepEqual(warnings, [
    { address: "fd00::2", iface: "eth0" },
    { network: "10.6.0.0/24", iface: "eth0" },
    { family: "ipv6", iface: "eth0" },
    { iface: "eth0", found: ["pod: rule pref 1000 lookup 7 proto 3"] },
  ]);
});
