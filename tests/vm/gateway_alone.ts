// A gateway in the network namespace that it is started in, without the right
// to enter another: what a gateway's container is.
//
//   deno run -A gateway_alone.ts ADDRESS,… CLIENT…
import { EgressServer, planServer } from "../../lib/egress/mod.ts";
import { Address, type DualStack } from "../../lib/inet/mod.ts";

const [own = "", ...clients] = Deno.args;
const addresses: DualStack<Address> = Object.fromEntries(
  own.split(",").map((text) => Address.parse(text)).map((address) => [
    address.family,
    address,
  ]),
);
using server = await EgressServer.open(planServer({
  addresses,
  ifname: "eth0",
  mtu: 0,
  port: 5555,
  sourcePortAuto: true,
}));
const { added } = await server.setClients(
  clients.map((text) => Address.parse(text)),
);
const text = `${added.length} of ${clients.length} clients are new\n`;
Deno.stdout.writeSync(new TextEncoder().encode(text));
