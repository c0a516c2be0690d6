// What a block of a TCP stream takes from a client to the outside, by two
// tunnels in turn, in bursts so short that other load of the machine misses
// most of them.
import { inNetns, Netns } from "../../../lib/linux/mod.ts";
import { FAMILIES, type Family } from "../../../lib/inet/mod.ts";
import { ADDRESSES, type EgressLab } from "../../vm/egress_server_lab.ts";
import { compareBursts, type TunnelLabs } from "./bursts.ts";

const PORT = 5301;
/** Of a burst, about a millisecond. */
const BLOCK = new Uint8Array(512 * 1024);

/** Throughput of the second as a percentage of that of the first, in each family. */
export async function compareStreams(labs: TunnelLabs): Promise<number[]> {
  const ratios: number[] = [];
  for (const family of FAMILIES) {
    await using stack = new AsyncDisposableStack();
    const service = await streamOf(labs.service, { family, stack });
    const direct = await streamOf(labs.direct, { family, stack });
    ratios.push(await compareBursts({ service, direct }));
  }
  return ratios;
}

/** Sends a block from the client, until a server outside has it. */
async function streamOf(
  lab: EgressLab,
  { family, stack }: {
    readonly family: Family;
    readonly stack: AsyncDisposableStack;
  },
): Promise<() => Promise<void>> {
  const hostname = ADDRESSES.outside[family];
  using outside = Netns.open(lab.outside.path);
  const listener = stack.use(
    inNetns(outside, () => Deno.listen({ hostname, port: PORT })),
  );
  using netns = Netns.open(lab.client.path);
  const accepting = listener.accept();
  const { connecting } = inNetns(netns, () => ({
    connecting: Deno.connect({ hostname, port: PORT, autoSelectFamily: false }),
  }));
  const client = stack.use(await connecting);
  const server = stack.use(await accepting);
  const buffer = new Uint8Array(BLOCK.length);
  return async () => {
    const writing = writeAll(client);
    let left = BLOCK.length;
    while (left > 0) left -= await server.read(buffer) ?? left;
    await writing;
  };
}

async function writeAll(client: Deno.Conn): Promise<void> {
  let at = 0;
  while (at < BLOCK.length) at += await client.write(BLOCK.subarray(at));
}
