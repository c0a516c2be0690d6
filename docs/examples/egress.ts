// deno-lint-ignore-file no-console -- a program for the command line
/**
 * Makes one network namespace the egress client of another.
 *
 *   sudo npx --yes deno@2.9.6 run -A docs/examples/egress.ts CLIENT GATEWAY [DESTINATION...]
 *
 * CLIENT and GATEWAY are names as `ip netns` shows them. Both need an interface
 * `eth0` with an address of the same family, and have to reach each other there.
 * What CLIENT sends to a DESTINATION (a network; without any, to everything that is not
 * private) then leaves GATEWAY with GATEWAY's address. Run it again after any
 * change: the kernel is made to match, from any state.
 *
 * The kernel needs Foo over UDP: modules fou, fou6, ipip, ip6_tunnel.
 */
import {
  applyClient,
  EgressServer,
  planClient,
  planServer,
} from "../../lib/egress/mod.ts";
import {
  type Address,
  type DualStack,
  FAMILIES,
  Prefix,
  valuesOf,
} from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import { formatClientPlan } from "../../tests/lab/plan_text/egress_client.ts";
import { formatServerPlan } from "../../tests/lab/plan_text/egress_gateway.ts";

const IFNAME = "eth0";
const PORT = 5555;

const [clientName, gatewayName, ...networks] = Deno.args;
if (clientName === undefined || gatewayName === undefined) {
  console.error("usage: egress.ts CLIENT GATEWAY [DESTINATION...]");
  Deno.exit(2);
}
const everything = ["0.0.0.0/0", "::/0"];
const destinations = (networks.length > 0 ? networks : everything)
  .map(Prefix.parse);

using client = Netns.open(`/run/netns/${clientName}`);
using gateway = Netns.open(`/run/netns/${gatewayName}`);
const clientAddresses = await addressesOf(client);
const gatewayAddresses = await addressesOf(gateway);

// The gateway first: then no packet of the client is ever lost.
const serverPlan = planServer({
  addresses: gatewayAddresses,
  ifname: IFNAME,
  mtu: 0, // that of the interface less what the tunnel needs
  port: PORT,
  sourcePortAuto: true,
});
using server = await EgressServer.open(serverPlan, { netns: gateway });
const clients = valuesOf(clientAddresses);
const { added, skipped } = await server.setClients(clients);
console.log(`# ${gatewayName}\n${formatServerPlan(serverPlan, clients)}`);
for (const { address, reason } of skipped) {
  console.log(`# ${address} is not a client of it (${reason})`);
}
console.log(`# ${added.length} of ${clients.length} clients are new\n`);

const clientPlan = planClient({
  addresses: clientAddresses,
  ifname: IFNAME,
  mtu: 0,
  port: PORT,
  originatingOnly: false,
  gateways: [{
    name: `example/${gatewayName}`,
    // In a cluster this is the address of a Service with many gateways behind it.
    service: gatewayAddresses,
    senders: valuesOf(gatewayAddresses),
    destinations,
    sourcePortAuto: true,
    available: FAMILIES,
    failurePolicy: "Closed",
  }],
});
const { changes } = await applyClient(clientPlan, { netns: client });
console.log(`# ${clientName}\n${formatClientPlan(clientPlan)}`);
console.log(`# ${changes.length} changes`);

/** The first global address of each family on the interface. */
async function addressesOf(netns: Netns): Promise<DualStack<Address>> {
  using socket = RouteSocket.open({ netns });
  const link = await socket.getLink({ name: IFNAME });
  if (link === undefined) {
    throw new Error(`Cannot use "${netns.path}": it has no ${IFNAME}`);
  }
  const entries = await socket.listAddresses({ index: link.index });
  const found = entries.filter(({ scope }) => scope === "global")
    .map(({ prefix }) => prefix.address);
  const ipv4 = found.find(({ family }) => family === "ipv4");
  const ipv6 = found.find(({ family }) => family === "ipv6");
  return {
    ...(ipv4 === undefined ? {} : { ipv4 }),
    ...(ipv6 === undefined ? {} : { ipv6 }),
  };
}
