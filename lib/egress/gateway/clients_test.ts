import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Link, Route } from "../../netlink/mod.ts";
import {
  admit,
  changeClients,
  type ClientKernel,
  clientRoutes,
} from "./clients.ts";
import { leftoverLinks, leftoverPorts } from "./links.ts";
import { planServer } from "./plan.ts";

const OWN = Address.parse("10.1.2.2");
const PLAN = planServer({
  addresses: { ipv4: OWN },
  ifname: "eth0",
  mtu: 1500,
  port: 5555,
  sourcePortAuto: true,
});

function addresses(...texts: string[]): Address[] {
  return texts.map(Address.parse);
}

Deno.test("admit() takes each address once", () => {
  const { clients, skipped } = admit(
    PLAN,
    addresses("10.1.1.2", "10.1.1.3", "10.1.1.2"),
  );
  assert.deepEqual([...clients.keys()], ["10.1.1.2", "10.1.1.3"]);
  assert.deepEqual(skipped, []);
});

Deno.test("admit() never takes the gateway itself, nor a family that it lacks", () => {
  const { clients, skipped } = admit(PLAN, addresses("10.1.2.2", "fd01::2"));
  assert.equal(clients.size, 0);
  assert.deepEqual(
    skipped.map(({ address, reason }) => `${address} ${reason}`),
    ["10.1.2.2 own", "fd01::2 family"],
  );
});

/** Writes down what it is asked for; the first times it cannot forget connections. */
function kernelThatForgets(
  { failures }: { readonly failures: number },
): ClientKernel & { readonly calls: string[] } {
  const calls: string[] = [];
  let left = failures;
  return {
    calls,
    routes: {
      execute: (requests) => {
        calls.push(`${requests.length} routes`);
        return Promise.resolve();
      },
      tryExecute: (requests) => {
        calls.push(`${requests.length} routes less`);
        return Promise.resolve(requests.map(() => undefined));
      },
    },
    netfilter: {
      changeSet: ({ add = [], remove = [] }) => {
        calls.push(`set +${add.length} -${remove.length}`);
        return Promise.resolve();
      },
    },
    conntrack: {
      deleteWhere: (_match, { family } = {}) => {
        calls.push(`forget ${family}`);
        return left-- > 0
          ? Promise.reject(new Error("no memory"))
          : Promise.resolve(1);
      },
    },
  };
}

Deno.test("changeClients() forgets connections of former clients, if late then before anybody gets their address", async () => {
  const kernel = kernelThatForgets({ failures: 2 });
  const [pod = OWN] = addresses("10.1.1.2");
  const former = new Map<string, Address>();
  const change = (add: readonly Address[], remove: readonly Address[]) => {
    kernel.calls.length = 0;
    const links = new Map([["ipv4", 7] as const]);
    return changeClients(kernel, PLAN, { add, remove, links, former });
  };
  await assert.rejects(change([], [pod]), /no memory/);
  assert.deepEqual(kernel.calls, [
    ...["0 routes", "set +0 -1", "1 routes less", "forget ipv4"],
  ]);
  await assert.rejects(change([pod], []), /no memory/);
  assert.deepEqual(kernel.calls, ["forget ipv4"]);
  await change([pod], []);
  assert.deepEqual(kernel.calls, ["forget ipv4", "1 routes", "set +1 -0"]);
  assert.equal(former.size, 0);
  await change([], []);
  assert.ok(!kernel.calls.includes("forget ipv4"), "not again");
});

Deno.test("clientRoutes() knows clients of upstream and passes over what is somebody else's", () => {
  const route: Route = {
    family: "ipv4",
    destination: Prefix.parse("10.1.1.2/32"),
    index: 7,
    table: 118,
    protocol: 30,
    scope: "link",
    type: "unicast",
  };
  const others: Route[] = [
    { ...route, protocol: 4 },
    { ...route, table: 254 },
    { ...route, destination: Prefix.parse("10.1.1.0/24") },
    { ...route, destination: undefined, type: "unreachable" },
    { ...route, type: "unreachable" },
    { ...route, family: "ipv6", destination: Prefix.parse("fd01::2/128") },
  ];
  assert.deepEqual(clientRoutes(PLAN, [...others, route]), [route]);
});

function link(name: string, kind: string, port?: number): Link {
  const encap = port === undefined ? undefined : {
    sourcePort: "auto" as const,
    destinationPort: port,
    checksum: false,
  };
  return {
    index: 1,
    name,
    kind,
    mtu: 1472,
    up: true,
    lowerUp: true,
    group: 0,
    flags: 0,
    ...(kind === "ipip" || kind === "ip6tnl"
      ? { tunnel: { kind, encap } }
      : {}),
  };
}

Deno.test("leftoverLinks() are upstream's and of families that are not served; all others stay", () => {
  const left = [
    link("fou4_0a010102", "ipip"),
    link("fou6_0a010102", "ip6tnl"),
    link("coil_ipip4", "ipip"),
    link("coil_ipip6", "ip6tnl"),
    link("coil_fou6", "ip6tnl"),
    link("fou-dummy", "dummy"),
    link("egress-dummy", "dummy"),
  ];
  const kept = [
    link("coil_fou4", "ipip"),
    link("fou4_0a010102", "veth"),
    link("fou4_mine", "ipip"),
    link("fou-dummy", "bridge"),
    link("tunl0", "ipip"),
    link("eth0", "veth"),
  ];
  assert.deepEqual(leftoverLinks([...kept, ...left], PLAN), left);
});

Deno.test("leftoverPorts() are those of tunnels that lead to another port", () => {
  const ports = leftoverPorts([
    link("coil_fou4", "ipip", 5556),
    link("coil_fou6", "ip6tnl", 5555),
    link("fou4_0a010102", "ipip", 5555),
    link("fou4_0a010103", "ipip", 5556),
    link("somebody", "ipip", 7777),
  ], PLAN);
  assert.deepEqual(ports, [
    { family: "ipv4", port: 5556, protocol: 4 },
    { family: "ipv6", port: 5555, protocol: 41 },
  ]);
});
