/**
 * IP packets as bytes, and a way to put them on a link just so: what a hostile
 * pod with a raw socket does.
 *
 * @module
 */

import { Address } from "../../lib/inet/mod.ts";
import type { TempNetns } from "./testing.ts";

/** Protocol numbers of IANA's registry. */
export const PROTOCOLS = {
  hopByHop: 0,
  icmp: 1,
  igmp: 2,
  ipip: 4,
  tcp: 6,
  udp: 17,
  ipv6: 41,
  routing: 43,
  fragment: 44,
  gre: 47,
  esp: 50,
  ah: 51,
  icmpv6: 58,
  none: 59,
  options: 60,
  sctp: 132,
} as const;

/** From where to where, as text. */
export interface Path {
  readonly source: string;
  readonly destination: string;
}

/** What an IP packet is beside its addresses and what it carries. */
export interface IpOptions {
  /** The number of what it carries. */
  readonly protocol: number;
  /** IPv4: bytes of options, in fours. */
  readonly options?: Uint8Array;
  /** IPv4: the field of flags and fragment offset. */
  readonly fragment?: number;
  /** IPv4: the identification. */
  readonly id?: number;
  readonly ttl?: number;
}

/** An IPv4 or IPv6 packet, by the family of its addresses. */
export function ipPacket(
  path: Path,
  payload: Uint8Array,
  options: IpOptions,
): Uint8Array {
  const source = Address.parse(path.source).toBytes();
  const destination = Address.parse(path.destination).toBytes();
  if (source.length !== destination.length) {
    throw new TypeError(`Cannot mix families: ${JSON.stringify(path)}`);
  }
  const { protocol, ttl = 64 } = options;
  if (source.length === 16) {
    const head = Uint8Array.of(0x60, 0, 0, 0, 0, 0, protocol, ttl);
    new DataView(head.buffer).setUint16(4, payload.length);
    return bytes(head, source, destination, payload);
  }
  const more = options.options ?? new Uint8Array();
  const head = new Uint8Array(20 + more.length);
  const view = new DataView(head.buffer);
  head[0] = 0x40 | head.length / 4;
  view.setUint16(2, head.length + payload.length);
  view.setUint16(4, options.id ?? 1);
  view.setUint16(6, options.fragment ?? 0);
  head.set([ttl, protocol], 8);
  head.set(source, 12);
  head.set(destination, 16);
  head.set(more, 20);
  view.setUint16(10, checksum(head));
  return bytes(head, payload);
}

/** A UDP datagram; without a checksum in IPv4, which needs none. */
export function udp(
  path: Path,
  ports: readonly [from: number, to: number],
  payload: Uint8Array = new Uint8Array(),
): Uint8Array {
  const head = new Uint8Array(8);
  const view = new DataView(head.buffer);
  view.setUint16(0, ports[0]);
  view.setUint16(2, ports[1]);
  view.setUint16(4, 8 + payload.length);
  const datagram = bytes(head, payload);
  if (path.source.includes(":")) {
    new DataView(datagram.buffer).setUint16(
      6,
      checksum(pseudo(path, datagram, PROTOCOLS.udp)) || 0xffff,
    );
  }
  return datagram;
}

/** The segment that begins a TCP connection. */
export function tcpSyn(
  path: Path,
  ports: readonly [from: number, to: number],
): Uint8Array {
  const segment = new Uint8Array(20);
  const view = new DataView(segment.buffer);
  view.setUint16(0, ports[0]);
  view.setUint16(2, ports[1]);
  view.setUint16(12, 0x5002); // five words of header, SYN
  view.setUint16(14, 0xffff);
  view.setUint16(16, checksum(pseudo(path, segment, PROTOCOLS.tcp)));
  return segment;
}

/** An ICMPv6 message of that type, with its checksum. */
export function icmpv6(
  path: Path,
  type: number,
  body: Uint8Array = new Uint8Array(20),
): Uint8Array {
  const message = bytes(Uint8Array.of(type, 0, 0, 0), body);
  const sum = checksum(pseudo(path, message, PROTOCOLS.icmpv6));
  new DataView(message.buffer).setUint16(2, sum);
  return message;
}

/** An ICMP message of that type, with its checksum. */
export function icmp(
  type: number,
  body: Uint8Array = new Uint8Array(8),
): Uint8Array {
  const message = bytes(Uint8Array.of(type, 0, 0, 0), body);
  new DataView(message.buffer).setUint16(2, checksum(message));
  return message;
}

function pseudo(
  { source, destination }: Path,
  payload: Uint8Array,
  protocol: number,
): Uint8Array {
  const tail = new Uint8Array(8);
  const view = new DataView(tail.buffer);
  view.setUint32(0, payload.length);
  view.setUint32(4, protocol);
  return bytes(
    Address.parse(source).toBytes(),
    Address.parse(destination).toBytes(),
    tail,
    payload,
  );
}

/** The bytes one behind the other. */
export function bytes(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(
    parts.reduce((sum, { length }) => sum + length, 0),
  );
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The checksum of RFC 1071. */
export function checksum(data: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < data.length; i += 2) {
    sum += ((data[i] ?? 0) << 8) + (data[i + 1] ?? 0);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

/** Perl is part of every Debian; a packet in hexadecimal a line, after the index of the link and the address of its other end. */
const SENDER = `
use Socket;
my ($index, $mac) = @ARGV;
socket(my $s, 17, SOCK_DGRAM, 0) or die "socket: $!";
my $sent = 0;
while (my $line = <STDIN>) {
  chomp $line;
  my $packet = pack("H*", $line);
  my $type = ord($packet) >> 4 == 6 ? 0x86dd : 0x0800;
  my $to = pack("Snl SCC H16", 17, $type, $index, 0, 0, 6, $mac . "0000");
  send($s, $packet, 0, $to) or die "send: $!";
  $sent++;
}
print "$sent\\n";
`;

/**
 * Sends packets by a link, each as it is; the kernel adds the Ethernet header
 * alone. `mac` is who they are for.
 */
export async function sendRaw(
  netns: TempNetns,
  link: { readonly name: string; readonly mac: string },
  packets: readonly Uint8Array[],
): Promise<void> {
  const [row] = await netns.ipJson("link", "show", "dev", link.name);
  const child = new Deno.Command("nsenter", {
    args: [
      ...[`--net=${netns.path}`, "perl", "-e", SENDER],
      ...[String(row?.["ifindex"]), link.mac.replaceAll(":", "")],
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  const lines = packets.map((packet) => `${packet.toHex()}\n`).join("");
  await writer.write(new TextEncoder().encode(lines));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  const sent = Number(new TextDecoder().decode(stdout));
  if (code !== 0 || sent !== packets.length) {
    const said = new TextDecoder().decode(stderr);
    throw new Error(`Sent ${sent} of ${packets.length} packets: ${said}`);
  }
}
