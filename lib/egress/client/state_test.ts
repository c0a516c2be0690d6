import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import { ERRNO } from "../../linux/mod.ts";
import { type Link, NetlinkError, type Route } from "../../netlink/mod.ts";
import {
  isGateway,
  type NetnsState,
  ownState,
  portsOf,
  readState,
  type StateReader,
} from "./state.ts";

const EMPTY: NetnsState = { links: [], rules: [], routes: [], addresses: [] };

function link(name: string, changes: Partial<Link> = {}): Link {
  return {
    index: 9,
    name,
    mtu: 1500,
    up: true,
    lowerUp: true,
    group: 0,
    flags: 0,
    ...changes,
  };
}

function route(changes: Partial<Route>): Route {
  return {
    family: "ipv4",
    destination: Prefix.parse("203.0.113.0/24"),
    table: 254,
    protocol: 3,
    scope: "global",
    type: "unicast",
    index: 3,
    ...changes,
  };
}

Deno.test("ownState() takes tunnels, receivers and upstream's marker, and no other link", () => {
  const own = ["fou4_0a440c31", "coil_ipip4", "coil_ipip6"].map((n) => link(n));
  const marker = link("fou-dummy", { kind: "dummy" });
  const others = [
    link("eth0"),
    link("tunl0", { kind: "ipip" }),
    link("coil_tunl", { kind: "ipip" }),
    link("fou-dummy", { kind: "veth" }),
  ];
  const state = { ...EMPTY, links: [...own, marker, ...others] };
  assert.deepEqual(ownState(state).links, [...own, marker]);
});

Deno.test("ownState() takes the two tables, copies of ours, and the tables of our marks", () => {
  const own = [
    route({ table: 117, protocol: 4 }),
    route({ table: 118 }),
    route({ table: 1003, protocol: 30 }),
    // As upstream copies them; only our rule tells.
    route({ table: 1004, index: 4, protocol: 3 }),
  ];
  const others = [
    route({}),
    route({ table: 116 }),
    route({ table: 1003, index: 5, protocol: 30 }),
    route({ table: 1005, index: 5, protocol: 3 }),
  ];
  const rule = {
    family: "ipv4",
    priority: 1000,
    fwmark: 4,
    table: 1004,
  } as const;
  const state = { ...EMPTY, rules: [rule], routes: [...own, ...others] };
  assert.deepEqual(ownState(state).routes, own);
});

Deno.test("isGateway() goes by the gateway's tunnel devices", () => {
  const links = [link("eth0"), link("coil_fou6")];
  assert.ok(isGateway({ ...EMPTY, links }));
  assert.ok(!isGateway({ ...EMPTY, links: [link("fou6_0a3cb378")] }));
});

Deno.test("portsOf() knows a port by the tunnels to it", () => {
  const to = (name: string, destinationPort: number) =>
    link(name, {
      kind: "ipip",
      tunnel: {
        kind: "ipip",
        encap: { sourcePort: "auto", destinationPort, checksum: true },
      },
    });
  assert.deepEqual(
    portsOf([
      to("fou4_00000001", 5555),
      to("fou4_00000002", 5555),
      to("fou6_00000001", 5556),
      to("mine", 5557),
      link("fou4_00000003"),
    ]),
    [
      { family: "ipv4", port: 5555, protocol: 4 },
      { family: "ipv6", port: 5556, protocol: 41 },
    ],
  );
});

Deno.test("readState() throws what the kernel refuses", async () => {
  const refuse = () =>
    Promise.reject(new NetlinkError("list", { errno: ERRNO.EPERM }));
  const reader: StateReader = {
    listLinks: () => Promise.resolve([]),
    listAddresses: refuse,
    listRules: refuse,
    listRoutes: refuse,
  };
  await assert.rejects(
    readState(reader, { withAddresses: false }),
    { code: "EPERM" },
  );
});

Deno.test("readState() lists no more than a bound of anything", async () => {
  const bounds: (number | undefined)[] = [];
  const list = (
    ...[_filter, options]: Parameters<StateReader["listRules"]>
  ): Promise<never[]> => {
    bounds.push(options?.atMost);
    return Promise.resolve([]);
  };
  const reader: StateReader = {
    listLinks: (options) => list({}, options),
    listRules: list,
    listRoutes: list,
    listAddresses: list,
  };
  await readState(reader, { withAddresses: true });
  assert.deepEqual(bounds, [10_000, 10_000, 10_000, 10_000]);
});
