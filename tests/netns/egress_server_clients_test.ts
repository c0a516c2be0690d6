// What a gateway does for each of its clients, in a real kernel. Its tunnels are
// in tests/vm.
import assert from "node:assert/strict";
import { planServer } from "../../lib/egress/mod.ts";
import {
  changeClients,
  type ClientKernel,
  type TunnelIndexes,
} from "../../lib/egress/gateway/clients.ts";
import { Address } from "../../lib/inet/mod.ts";
import {
  NETLINK_NETFILTER,
  NETLINK_ROUTE,
  Netns,
  openNetlink,
} from "../../lib/linux/mod.ts";
import {
  ConntrackSocket,
  NetfilterSocket,
  RouteSocket,
} from "../../lib/netlink/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";

const MANY = 2_000;
/** Routes to clients lead to the loopback: this kernel may have no tunnels. */
const LINKS: TunnelIndexes = new Map([["ipv4", 1], ["ipv6", 1]]);

/** The client of a number, in both families. */
function addressesOf(number: number): Address[] {
  const hex = number.toString(16);
  return [
    Address.of("ipv4", (10n << 24n) + BigInt(number)),
    Address.parse(`fd02::${hex}`),
  ];
}

netnsTest(
  "W36: one more client takes the same few messages after two thousand as the first one did, and no list",
  async () => {
    await using gateway = await tempNetns("gateway");
    await gateway.ip("link", "set", "lo", "up");
    using netns = Netns.open(gateway.path);
    const plan = planServer({
      addresses: {
        ipv4: Address.parse("10.9.9.9"),
        ipv6: Address.parse("fd09::9"),
      },
      ifname: "lo",
      mtu: 1500,
      port: 5555,
      sourcePortAuto: true,
    });
    let sent: string[] = [];
    const trace = {
      sent: (_: Uint8Array, what: readonly string[]) => void sent.push(...what),
      received: () => {},
    };
    const open = (protocol: number) => openNetlink(protocol, { netns });
    using routes = RouteSocket.over(open(NETLINK_ROUTE), trace);
    using netfilter = NetfilterSocket.over(open(NETLINK_NETFILTER), trace);
    using conntrack = ConntrackSocket.open({ netns });
    const kernel: ClientKernel = { routes, netfilter, conntrack };
    await netfilter.replaceTable(plan.table);
    const add = async (clients: readonly Address[]): Promise<string[]> => {
      sent = [];
      const change = { add: clients, remove: [], former: new Map() };
      await changeClients(kernel, plan, { ...change, links: LINKS });
      return clients.reduce(
        (text, client) => text.map((line) => line.replace(`${client}`, "it")),
        sent,
      );
    };
    const first = await add(addressesOf(1));
    assert.ok(first.length > 0 && first.length < 20, first.join("\n"));
    assert.ok(!first.some((line) => line.startsWith("list")), `${first}`);
    const others = Array.from({ length: MANY }, (_, i) => addressesOf(i + 2));
    for (let from = 0; from < MANY; from += 100) {
      await add(others.slice(from, from + 100).flat());
    }
    assert.deepEqual(await add(addressesOf(MANY + 2)), first);
    const table = `${plan.routeTable}`;
    const listed = await gateway.ip("route", "show", "table", table);
    assert.equal(listed.trim().split("\n").length, MANY + 2);
  },
);
