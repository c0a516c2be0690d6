import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Link, Neighbour, Route } from "../../netlink/mod.ts";
import type { SideState } from "../state/state.ts";
import { renderStep } from "../state/step_text.ts";
import { planRoutesToHost } from "./routes_to_host.ts";

const VETH = 3;
const HOST_MAC = "02:00:00:00:00:01";

function route(
  address: string,
  options: {
    readonly table?: number;
    readonly gateway?: string;
    readonly protocol?: number;
  } = {},
): Route {
  const { table = 254, gateway, protocol = 32 } = options;
  const parsed = Address.tryParse(address);
  const destination = parsed === undefined
    ? Prefix.parse(address)
    : Prefix.host(parsed);
  return {
    family: destination.family,
    destination,
    gateway: gateway === undefined ? undefined : Address.parse(gateway),
    index: VETH,
    table,
    protocol,
    scope: gateway === undefined ? "link" : "global",
    type: "unicast",
  };
}

function neighbour(address: string, mac = HOST_MAC): Neighbour {
  return {
    index: VETH,
    address: Address.parse(address),
    mac,
    state: "permanent",
  };
}

const ROUTES = [
  route("10.6.0.10"),
  route("10.6.0.10", { table: 100 }),
  route("10.6.0.11"),
  route("10.6.0.11", { table: 100 }),
  route("10.233.0.0/18", { gateway: "10.6.0.10" }),
  route("10.234.0.0/18", { gateway: "10.6.0.13" }),
  // The gateway of a cluster's network, and another program's way.
  route("169.254.1.1", { table: 101 }),
  route("10.6.0.12", { table: 102, protocol: 3 }),
];
const NEIGHBOURS = [
  neighbour("10.6.0.10"),
  neighbour("10.6.0.11"),
  neighbour("169.254.1.1", "02:00:00:00:00:02"),
];

function planned(
  hostAddresses: readonly string[],
  changes: Partial<SideState> = {},
): string[] {
  const link = { index: VETH, name: "veth0", kind: "veth" } as Link; // all that is looked at
  const steps = planRoutesToHost({
    pod: {
      links: [link],
      addresses: [],
      rules: [],
      routes: ROUTES,
      neighbours: NEIGHBOURS,
      ...changes,
    },
    inner: { device: "veth0", mac: "02:00:00:00:00:03" },
    outer: { device: "vethx", mac: HOST_MAC },
    hostAddresses: hostAddresses.map((text) => Address.parse(text)),
  });
  return steps.map((step) => renderStep(step, { netns: "POD" }));
}

Deno.test("planRoutesToHost() has nothing to do where the pod knows the host's addresses", () => {
  assert.deepEqual(planned(["10.6.0.10", "10.6.0.11"]), []);
});

Deno.test("planRoutesToHost() adds an address in each table that leads to the host", () => {
  assert.deepEqual(planned(["10.6.0.10", "10.6.0.11", "10.7.0.10"]), [
    `ip -n POD neighbour replace 10.7.0.10 lladdr ${HOST_MAC} dev veth0 nud permanent`,
    "ip -n POD route replace 10.7.0.10/32 dev veth0 proto 32 scope link",
    "ip -n POD route replace 10.7.0.10/32 dev veth0 table 100 proto 32 scope link",
  ]);
});

Deno.test("planRoutesToHost() removes what the host has lost, but for the gateway of what goes through it", () => {
  assert.deepEqual(planned(["10.6.0.10"]), [
    "ip -n POD route delete 10.6.0.11/32 dev veth0 proto 32 scope link",
    "ip -n POD route delete 10.6.0.11/32 dev veth0 table 100 proto 32 scope link",
    `ip -n POD neighbour delete 10.6.0.11 lladdr ${HOST_MAC} dev veth0 nud permanent`,
  ]);
  assert.deepEqual(planned(["10.6.0.11"]), []);
});

Deno.test("planRoutesToHost() keeps the routes of a family of which the host has no address now", () => {
  assert.deepEqual(planned(["fd00:10:6::10"]), []);
  assert.deepEqual(planned([]), []);
});
