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

const PORT = 5300;
const PAYLOAD = new Uint8Array(1_000);
/** Datagrams of a burst, about a millisecond. */
const BURST = 40;
/** Bursts by each tunnel for one sample. */
const BURSTS = 200;
/** Of these the share that is quicker than the sample: the others met something else. */
const QUICKER = 0.1;

/** Two ways to the same gateway. */
export interface DatagramLabs {
  readonly service: EgressLab;
  readonly direct: EgressLab;
}

/** Throughput of the second as a percentage of that of the first, in each family. */
export function compareDatagrams(labs: DatagramLabs): number[] {
  return FAMILIES.map((family) => {
    using stack = new DisposableStack();
    const service = senderOf(labs.service, { family, stack });
    const direct = senderOf(labs.direct, { family, stack });
    const times: [number[], number[]] = [[], []];
    for (let i = 0; i < BURSTS; i++) {
      // Which is first differs.
      for (const turn of i % 2 === 0 ? [0, 1] as const : [1, 0] as const) {
        times[turn].push(burst(turn === 0 ? service : direct));
      }
    }
    const [ofService = NaN, ofDirect = NaN] = times.map(quick);
    return 100 * ofService / ofDirect;
  });
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

function burst(socket: DatagramSocket): number {
  const startMs = performance.now();
  for (let i = 0; i < BURST; i++) socket.sendNow(PAYLOAD);
  return performance.now() - startMs;
}

function quick(times: readonly number[]): number | undefined {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * QUICKER)];
}
