import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import {
  type ConntrackFlow,
  type Link,
  NetlinkError,
  type Request,
  type Route,
  routeDelete,
  routeReplace,
} from "../../netlink/mod.ts";
import { bytesOf } from "../../netlink/testing.ts";
import {
  admit,
  changeClients,
  type ClientKernel,
  clientRoutes,
} from "./clients.ts";
import { leftoverLinks, leftoverPorts } from "./links.ts";
import { planServer } from "../gateway_plan/plan.ts";

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

/** Both families. */
const DUAL = planServer({
  addresses: { ipv4: OWN, ipv6: Address.parse("fd01:2::2") },
  ifname: "eth0",
  mtu: 1500,
  port: 5555,
  sourcePortAuto: true,
});
const LINKS = new Map([["ipv4", 7], ["ipv6", 8]] as const);

/** Keeps what it is asked for, and forgets connections from these sources. */
function recordingKernel(errnos: readonly (number | undefined)[] = []) {
  const requests: Request[] = [];
  const sets: string[] = [];
  const forgotten: string[] = [];
  const sources = ["10.1.1.2", "10.1.1.3", "fd01::2", "fd01::3"];
  const kernel: ClientKernel = {
    routes: {
      execute: (more) => Promise.resolve(void requests.push(...more)),
      tryExecute: (more) => {
        requests.push(...more);
        return Promise.resolve(
          errnos.map((errno) =>
            errno === undefined
              ? undefined
              : new NetlinkError("delete", { errno })
          ),
        );
      },
    },
    netfilter: {
      changeSet: ({ table, set, add = [], remove = [] }) => {
        sets.push(`${table} ${set} +${add.join(" ")} -${remove.join(" ")}`);
        return Promise.resolve();
      },
    },
    conntrack: {
      deleteWhere: (match, { family } = {}) => {
        const found = sources.map(Address.parse).filter((originalSource) =>
          originalSource.family === family &&
          match({ originalSource } as ConntrackFlow)
        );
        forgotten.push(...found.map(String));
        return Promise.resolve(found.length);
      },
    },
  };
  return { kernel, requests, sets, forgotten };
}

Deno.test("changeClients() changes routes and sets of both families, and forgets only connections of who has gone", async () => {
  const { kernel, requests, sets, forgotten } = recordingKernel();
  const [add, remove] = [
    addresses("10.1.1.4", "fd01::4"),
    addresses("10.1.1.2", "fd01::3"),
  ];
  const former = new Map<string, Address>();
  const change = { add, remove, links: LINKS, former };
  await changeClients(kernel, DUAL, change);
  const route = (address: Address) => ({
    family: address.family,
    destination: Prefix.host(address),
    table: 118,
    protocol: 30,
  });
  assert.deepEqual(
    requests.map(bytesOf),
    [
      ...add.map((one) =>
        routeReplace({ ...route(one), index: LINKS.get(one.family) })
      ),
      ...remove.map((one) => routeDelete(route(one))),
    ].map(bytesOf),
  );
  assert.deepEqual(sets, [
    "coil clients4 +10.1.1.4,10.1.1.4 -10.1.1.2,10.1.1.2",
    "coil clients6 +fd01::4,fd01::4 -fd01::3,fd01::3",
  ]);
  assert.deepEqual(forgotten, ["10.1.1.2", "fd01::3"]);
});

Deno.test("changeClients() takes a route that is gone already for deleted, and nothing else", async () => {
  const [ESRCH, EPERM] = [3, 1];
  const remove = addresses("10.1.1.2", "fd01::3");
  const change = { add: [], remove, links: LINKS, former: new Map() };
  const gone = recordingKernel([undefined, ESRCH]);
  await changeClients(gone.kernel, DUAL, change);
  assert.equal(gone.forgotten.length, 2);
  const refusing = recordingKernel([ESRCH, EPERM]);
  await assert.rejects(
    changeClients(refusing.kernel, DUAL, change),
    { code: "EPERM" },
  );
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
