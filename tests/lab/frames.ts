/**
 * Ethernet frames as hostile pods make them: with any sender they like.
 *
 * @module
 */
import { concatenate } from "../../lib/bytes/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { parseMac } from "../../lib/netlink/mod.ts";

/** A frame, ready to be sent. */
export type Frame = Uint8Array<ArrayBuffer>;

/** Between whom a frame goes on the link. */
export interface Ends {
  readonly fromMac: string;
  readonly toMac: string;
}

const ETHERTYPE = { ipv4: 0x0800, arp: 0x0806, ipv6: 0x86dd } as const;
const BROADCAST = "ff:ff:ff:ff:ff:ff";
const PROTOCOL = { udp: 17, icmpv6: 58 } as const;

/** A UDP datagram. */
export interface Datagram extends Ends {
  readonly source: string;
  readonly destination: string;
  readonly port: number;
  readonly payload: string | Uint8Array;
}

/** A datagram of either family in a frame. */
export function udpFrame(datagram: Datagram): Frame {
  return ipFrame(udpPacket(datagram), datagram);
}

/** An IP packet in a frame. */
export function ipFrame(packet: Uint8Array, ends: Ends): Frame {
  const isIpv4 = (packet[0] ?? 0) >> 4 === 4;
  return frame(ends, isIpv4 ? ETHERTYPE.ipv4 : ETHERTYPE.ipv6, packet);
}

/** A datagram as an IP packet, as it is within a tunnel. */
export function udpPacket(
  { source, destination, port, payload }: Omit<Datagram, keyof Ends>,
): Uint8Array {
  const data = typeof payload === "string"
    ? new TextEncoder().encode(payload)
    : payload;
  const udp = bytes(u16(port), u16(port), u16(8 + data.length), u16(0), data);
  return ipPacket(PROTOCOL.udp, { source, destination, body: udp, sum: 6 });
}

/** An ARP request of an invented sender. */
export function arpRequest(
  { fromMac, sender, target }: {
    readonly fromMac: string;
    readonly sender: string;
    readonly target: string;
  },
): Frame {
  const body = bytes(
    ...[u16(1), u16(ETHERTYPE.ipv4), [6, 4], u16(1)],
    ...[parseMac(fromMac), address(sender), new Uint8Array(6), address(target)],
  );
  return frame({ fromMac, toMac: BROADCAST }, ETHERTYPE.arp, body);
}

/** ICMPv6 messages of RFC 4861. */
const DISCOVERY = {
  routerSolicit: 133,
  routerAdvert: 134,
  solicit: 135,
  advert: 136,
  redirect: 137,
} as const;

/** A message of neighbour discovery, with `target` where it has one. */
export function discoveryFrame(
  { fromMac, toMac, source, destination, kind, target }: Ends & {
    readonly source: string;
    readonly destination: string;
    readonly kind: keyof typeof DISCOVERY;
    readonly target?: string;
  },
): Frame {
  const option = [kind === "advert" ? 2 : 1, 1];
  const body = bytes(
    ...[[DISCOVERY[kind], 0], u16(0), new Uint8Array(4)],
    ...(target === undefined ? [] : [address(target)]),
    // Duplicate address detection names no link-layer address.
    ...(source === "::" ? [] : [option, parseMac(fromMac)]),
  );
  const packet = ipPacket(PROTOCOL.icmpv6, {
    source,
    destination,
    body,
    sum: 2,
  });
  return ipFrame(packet, { fromMac, toMac });
}

function frame(
  { fromMac, toMac }: Ends,
  type: number,
  payload: Uint8Array,
): Frame {
  return bytes(parseMac(toMac), parseMac(fromMac), u16(type), payload);
}

/** `sum` is where in the body its checksum is. */
function ipPacket(
  protocol: number,
  { source, destination, body, sum }: {
    readonly source: string;
    readonly destination: string;
    readonly body: Uint8Array;
    readonly sum: number;
  },
): Uint8Array {
  const from = address(source);
  const to = address(destination);
  const pseudo = bytes(from, to, u16(body.length), [0, protocol], body);
  body.set(u16(checksum(pseudo) || 0xffff), sum);
  if (from.length === 16) {
    const head = bytes([0x60, 0, 0, 0], u16(body.length), [protocol, 255]);
    return bytes(head, from, to, body);
  }
  const length = u16(20 + body.length);
  const head = bytes(
    ...[[0x45, 0], length, [0, 0, 0, 0, 64, protocol, 0, 0], from, to],
  );
  head.set(u16(checksum(head)), 10);
  return bytes(head, body);
}

/** RFC 1071. */
function checksum(data: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < data.length; at += 2) {
    sum += ((data[at] ?? 0) << 8) + (data[at + 1] ?? 0);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

function address(text: string): Uint8Array {
  return Address.parse(text).toBytes();
}

function u16(value: number): number[] {
  return [value >> 8, value & 0xff];
}

function bytes(...parts: readonly (readonly number[] | Uint8Array)[]): Frame {
  return concatenate(parts.map((part) => Uint8Array.from(part)));
}
