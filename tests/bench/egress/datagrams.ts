// What a datagram takes on its way from a client to the outside, by two
// tunnels in turn, in bursts so short that other load of the machine misses
// most of them: in the virtual machine all of the way is one system call.
import {
  type DatagramSocket,
  inNetns,
  Netns,
  openDatagramSocket,
} from "../../../lib/linux/mod.ts";
import { FAMILIES, type Family } from "../../../lib/inet/mod.ts";
import { addressesOf, type EgressLab } from "../../vm/egress_server_lab.ts";
import { compareBursts, type TunnelLabs } from "./bursts.ts";

const PORT = 5300;
const PAYLOAD = new Uint8Array(1_000);
/** Datagrams of a burst, about a millisecond. */
const BURST = 40;

/** Throughput of the second as a percentage of that of the first, in each family. */
export async function compareDatagrams(labs: TunnelLabs): Promise<number[]> {
  const ratios: number[] = [];
  for (const family of FAMILIES) {
    using stack = new DisposableStack();
    const service = senderOf(labs.service, { family, stack });
    const direct = senderOf(labs.direct, { family, stack });
    ratios.push(
      await compareBursts({
        service: () => burst(service),
        direct: () => burst(direct),
      }),
    );
  }
  return ratios;
}

/** A socket of the client's whose datagrams a server outside gets, and leaves lying. */
function senderOf(
  lab: EgressLab,
  { family, stack }: {
    readonly family: Family;
    readonly stack: DisposableStack;
  },
): DatagramSocket {
  const address = addressesOf("outside")[family];
  const hostname = address.toString();
  using outside = Netns.open(lab.outside.path);
  const server = inNetns(
    outside,
    () => Deno.listenDatagram({ hostname, port: PORT, transport: "udp" }),
  );
  stack.defer(() => server.close());
  using netns = Netns.open(lab.client.path);
  return stack.use(openDatagramSocket({ address, port: PORT }, { netns }));
}

function burst(socket: DatagramSocket): void {
  for (let i = 0; i < BURST; i++) socket.sendNow(PAYLOAD);
}
