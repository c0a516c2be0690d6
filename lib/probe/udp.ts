import { concatenate } from "../bytes/mod.ts";
import type { Family } from "../inet/mod.ts";
import type { Bytes, DatagramEnd } from "../linux/mod.ts";
import { checksum } from "./checksum.ts";

/** Of RFC 768. */
const UDP_BYTES = 8;
const UDP = 17;
/** Of RFC 791, without options. */
const IPV4_BYTES = 20;
const IPV4_CHECKSUM = 10;
const HOP_LIMIT = 64;

/** An IP packet with a UDP datagram, of an even number of bytes, in it. Both ends are of one family. */
export function udpPacket(
  { from, to, payload }: {
    readonly from: DatagramEnd;
    readonly to: DatagramEnd;
    readonly payload: Bytes;
  },
): Bytes {
  const length = UDP_BYTES + payload.length;
  const addresses = concatenate([from.address.toBytes(), to.address.toBytes()]);
  const datagram = concatenate([
    words(from.port, to.port, length, 0),
    payload,
  ]);
  const pseudo = concatenate([addresses, words(UDP, length), datagram]);
  // 0 would mean that there is none.
  setWord(datagram, 6, checksum(pseudo) || 0xffff);
  return concatenate([
    HEADERS[from.address.family](length, addresses),
    datagram,
  ]);
}

const HEADERS: Readonly<
  Record<Family, (length: number, addresses: Bytes) => Bytes>
> = {
  ipv4(length, addresses) {
    const ttlAndProtocol = HOP_LIMIT << 8 | UDP;
    const header = concatenate([
      words(0x4500, IPV4_BYTES + length, 0, 0, ttlAndProtocol, 0),
      addresses,
    ]);
    setWord(header, IPV4_CHECKSUM, checksum(header));
    return header;
  },
  ipv6: (length, addresses) =>
    concatenate([words(0x6000, 0, length, UDP << 8 | HOP_LIMIT), addresses]),
};

function words(...values: readonly number[]): Bytes {
  const bytes = new Uint8Array(values.length * 2);
  for (const [i, value] of values.entries()) setWord(bytes, i * 2, value);
  return bytes;
}

function setWord(bytes: Bytes, at: number, value: number): void {
  new DataView(bytes.buffer).setUint16(at, value);
}
