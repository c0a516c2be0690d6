import { sleep } from "../../lib/async/mod.ts";
import type { ProbeQuestion } from "../../lib/connectivity/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import {
  type DatagramSocket,
  openDatagramSocket,
} from "../../lib/linux/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import {
  encodeQuestion,
  newNonce,
  readAnswer,
  type Seen,
  SMALL_BYTES,
} from "./datagrams.ts";
import { LargePacketError } from "./failures.ts";

/** Bytes of the headers of IP and UDP. */
const HEADERS = { ipv4: 20 + 8, ipv6: 40 + 8 } as const;
/** The length of an IPv4 packet has 16 bits. */
const MAX_PACKET_BYTES = 65_535;

/** How soon an answer is seen. */
const LOOK_MS = 20;
/** Until it is sent again: a datagram may be lost. */
const AGAIN_MS = 1_000;

export async function askDatagram(
  { address: text, port, isLarge }: ProbeQuestion,
  signal: AbortSignal,
): Promise<Seen> {
  const address = Address.parse(text);
  using socket = openDatagramSocket(
    { address, port },
    { neverFragment: isLarge },
  );
  const headers = HEADERS[address.family];
  const size = isLarge
    ? Math.min(MAX_PACKET_BYTES, await mtuOf(socket.local.address))
    : headers + SMALL_BYTES;
  try {
    return await exchange(socket, { bytes: size - headers, signal });
  } catch (error) {
    throw isLarge ? new LargePacketError(size, error) : error;
  }
}

async function exchange(
  socket: DatagramSocket,
  { bytes, signal }: { readonly bytes: number; readonly signal: AbortSignal },
): Promise<Seen> {
  const nonce = newNonce();
  const question = encodeQuestion(nonce, bytes);
  const buffer = new Uint8Array(SMALL_BYTES);
  let sentMs = -Infinity;
  for (;;) {
    if (performance.now() - sentMs > AGAIN_MS) {
      socket.sendNow(question);
      sentMs = performance.now();
    }
    // An answer may come at any time.
    await sleep(LOOK_MS * (1 + Math.random()), { signal });
    const length = socket.receiveNow(buffer);
    if (length === undefined) continue;
    const seen = readAnswer(buffer.subarray(0, length), nonce);
    if (seen !== undefined) return seen;
  }
}

/** Of the link that has the address. */
async function mtuOf(address: Address): Promise<number> {
  using socket = RouteSocket.open();
  const { family } = address;
  const entry = (await socket.listAddresses({ family }))
    .find(({ prefix }) => prefix.address.equals(address));
  const link = entry && await socket.getLink({ index: entry.index });
  return link?.mtu ?? MAX_PACKET_BYTES;
}
