/**
 * The ways in which somebody may wrap a packet for a gateway's tunnel, and
 * around it: what the kernel takes apart before the gateway's rules see it,
 * and what it does not.
 *
 * @module
 */

import type { Family } from "../../lib/inet/mod.ts";
import {
  bytes,
  checksum,
  ipPacket,
  type Path,
  PROTOCOLS,
  udp,
} from "../netns/raw_packets.ts";

/** Where all these packets go, and the UDP port of tunnels there. */
export interface Target {
  readonly address: string;
  readonly port: number;
}

/** A way to send a packet into a tunnel; it may take several packets. */
export type Wrap = (
  inner: Uint8Array,
  from: string,
  to: Target,
) => readonly Uint8Array[];

/** The port that senders use. */
const SOURCE_PORT = 40_000;
const UDPLITE = 136;

function pathOf(from: string, { address }: Target): Path {
  return { source: from, destination: address };
}

/** A datagram to the tunnel's port. */
function datagram(inner: Uint8Array, from: string, to: Target): Uint8Array {
  return udp(pathOf(from, to), [SOURCE_PORT, to.port], inner);
}

/** Puts what a packet carries behind something else. */
function withPayload(
  change: (payload: Uint8Array) => Uint8Array,
  protocol: number = PROTOCOLS.udp,
): Wrap {
  return (inner, from, to) => [
    ipPacket(pathOf(from, to), change(datagram(inner, from, to)), { protocol }),
  ];
}

/** IPv4 with options in its header. */
function withOptions(...options: readonly number[]): Wrap {
  return (inner, from, to) => [
    ipPacket(pathOf(from, to), datagram(inner, from, to), {
      protocol: PROTOCOLS.udp,
      options: Uint8Array.from(options),
    }),
  ];
}

/** The packet itself, without a datagram around it. */
function bare(protocol: number, head: Uint8Array = new Uint8Array()): Wrap {
  return (inner, from, to) => [
    ipPacket(pathOf(from, to), bytes(head, inner), { protocol }),
  ];
}

/** A whole tunnel packet from the sender within another one. */
function nested(outer: Wrap, middle: Wrap): Wrap {
  return (inner, from, to) =>
    middle(inner, from, to).flatMap((packet) => outer(packet, from, to));
}

const plain: Wrap = withPayload((payload) => payload);

let fragments = 0;

/** IPv4 fragments that begin at these bytes of the payload, in this order. */
function fragments4(...cuts: readonly number[]): Wrap {
  return (inner, from, to) => {
    const payload = datagram(inner, from, to);
    const sorted = [...new Set(cuts)].toSorted((a, b) => a - b);
    const id = 1 + fragments++ % 60_000;
    return cuts.map((begin) => {
      const end = sorted.find((cut) => cut > begin);
      const fragment = begin / 8 | (end === undefined ? 0 : 0x2000);
      return ipPacket(pathOf(from, to), payload.subarray(begin, end), {
        protocol: PROTOCOLS.udp,
        id,
        fragment,
      });
    });
  };
}

/** IPv6 fragments, as `fragments4()`. */
function fragments6(...cuts: readonly number[]): Wrap {
  return (inner, from, to) => {
    const payload = datagram(inner, from, to);
    const sorted = [...new Set(cuts)].toSorted((a, b) => a - b);
    const id = 1 + fragments++;
    return cuts.map((begin) => {
      const end = sorted.find((cut) => cut > begin);
      const head = new Uint8Array(8);
      const view = new DataView(head.buffer);
      head[0] = PROTOCOLS.udp;
      view.setUint16(2, begin | (end === undefined ? 0 : 1));
      view.setUint32(4, id);
      return ipPacket(
        pathOf(from, to),
        bytes(head, payload.subarray(begin, end)),
        { protocol: PROTOCOLS.fragment },
      );
    });
  };
}

/** A second fragment that writes another inner source over that of the first. */
function overlapping(inner: Uint8Array, from: string, to: Target) {
  const payload = datagram(inner, from, to);
  const other = payload.slice();
  other.set([8, 8, 8, 8], 20);
  const id = 60_001 + fragments++ % 5000;
  const path = pathOf(from, to);
  const protocol = PROTOCOLS.udp;
  return [
    ipPacket(path, payload.subarray(0, 24), { protocol, id, fragment: 0x2000 }),
    ipPacket(path, other.subarray(16), { protocol, id, fragment: 2 }),
  ];
}

/** An IPv6 extension header of 8 bytes: the next header, and options or a body. */
function header(next: number, body: readonly number[]): Uint8Array {
  return Uint8Array.of(next, 0, ...body);
}

/** PadN of RFC 8200 section 4.2. */
const PADDING = [1, 4, 0, 0, 0, 0];
/** The tunnel encapsulation limit of RFC 2473, and padding. */
const TUNNEL_LIMIT = [4, 1, 4, 1, 1, 0];

function behind(
  first: number,
  ...headers: readonly ((next: number) => Uint8Array)[]
): Wrap {
  return withPayload(
    (payload) => bytes(...headers.map((h) => h(0)), payload),
    first,
  );
}

/** A routing header without segments left. */
function routing(type: number): (next: number) => Uint8Array {
  return () => header(PROTOCOLS.udp, [type, 0, 0, 0, 0, 0]);
}

/** The datagram with a part of its header changed. */
function corrupted(change: (view: DataView) => void): Wrap {
  return withPayload((payload) => {
    const changed = payload.slice();
    change(new DataView(changed.buffer));
    return changed;
  });
}

const GRE = (type: number) => Uint8Array.of(0, 0, type >> 8, type & 255);

const BOTH: Readonly<Record<string, Wrap>> = {
  "as a client would": plain,
  "with a wrong UDP checksum": corrupted((view) => view.setUint16(6, 0x1234)),
  "with a UDP length of 0": corrupted((view) => view.setUint16(4, 0)),
  "with a UDP length beyond the packet": corrupted((view) =>
    view.setUint16(4, 9000)
  ),
  "from the port of tunnels": corrupted((view) => {
    view.setUint16(0, 5555);
    view.setUint16(6, 0);
  }),
  "in UDP-Lite": withPayload((payload) => payload, UDPLITE),
  "in SCTP": withPayload((payload) => payload, PROTOCOLS.sctp),
  "in ESP": withPayload((payload) => payload, PROTOCOLS.esp),
};

const IPV4: Readonly<Record<string, Wrap>> = {
  "in two fragments": fragments4(0, 32),
  "in fragments of eight bytes": fragments4(0, 8, 16, 24, 32),
  "in fragments, the last first": fragments4(32, 16, 0),
  "in fragments that overlap": overlapping,
  "with one fragment twice": fragments4(0, 16, 16),
  "with options that do nothing": withOptions(1, 1, 1, 0),
  "with as many options as there can be": withOptions(
    ...Array.from({ length: 40 }, () => 1),
  ),
  "with its route recorded": withOptions(7, 7, 4, 0, 0, 0, 0, 0),
  "with a loose source route": withOptions(131, 7, 8, 10, 1, 2, 2, 0),
  "with a strict source route": withOptions(137, 7, 4, 10, 1, 2, 2, 0),
  "with a router alert": withOptions(148, 4, 0, 0),
  "as plain IP in IP": bare(PROTOCOLS.ipip),
  "as IPv6 in IPv4, which it is not": bare(PROTOCOLS.ipv6),
  "in GRE": bare(PROTOCOLS.gre, GRE(0x0800)),
  "in a tunnel in the tunnel": nested(plain, plain),
  "as IP in IP in the tunnel": nested(plain, bare(PROTOCOLS.ipip)),
  "in a tunnel in IP in IP": nested(bare(PROTOCOLS.ipip), plain),
  "in fragments in the tunnel": nested(plain, fragments4(0, 32)),
};

const IPV6: Readonly<Record<string, Wrap>> = {
  "in two fragments": fragments6(0, 48),
  "in fragments of eight bytes": fragments6(0, 8, 16, 24, 32, 40, 48),
  "in fragments, the last first": fragments6(48, 16, 0),
  "in one fragment": fragments6(0),
  "behind hop-by-hop options": behind(
    PROTOCOLS.hopByHop,
    () => header(PROTOCOLS.udp, PADDING),
  ),
  "behind options for the destination": behind(
    PROTOCOLS.options,
    () => header(PROTOCOLS.udp, PADDING),
  ),
  "behind four headers": behind(
    PROTOCOLS.hopByHop,
    () => header(PROTOCOLS.options, PADDING),
    () => header(PROTOCOLS.options, PADDING),
    () => header(PROTOCOLS.routing, PADDING),
    routing(4),
  ),
  "behind a routing header of type 0": behind(PROTOCOLS.routing, routing(0)),
  "behind a routing header of type 2": behind(PROTOCOLS.routing, routing(2)),
  "behind an authentication header": withPayload(
    (payload) =>
      bytes(
        Uint8Array.of(PROTOCOLS.udp, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1),
        payload,
      ),
    PROTOCOLS.ah,
  ),
  "without a UDP checksum": corrupted((view) => view.setUint16(6, 0)),
  "as plain IPv6 in IPv6": bare(PROTOCOLS.ipv6),
  "as IPv6 in IPv6 with a limit": bare(
    PROTOCOLS.options,
    header(PROTOCOLS.ipv6, TUNNEL_LIMIT),
  ),
  "as IPv4 in IPv6, which it is not": bare(PROTOCOLS.ipip),
  "in GRE": bare(PROTOCOLS.gre, GRE(0x86dd)),
  "in a tunnel in the tunnel": nested(plain, plain),
  "as IPv6 in IPv6 in the tunnel": nested(plain, bare(PROTOCOLS.ipv6)),
  "in a tunnel in IPv6 in IPv6": nested(bare(PROTOCOLS.ipv6), plain),
  "in fragments in the tunnel": nested(plain, fragments6(0, 48)),
};

/** Every way, by its name. */
export const WRAPS: Readonly<
  Record<Family, readonly (readonly [string, Wrap])[]>
> = {
  ipv4: Object.entries({ ...BOTH, ...IPV4 }),
  ipv6: Object.entries({ ...BOTH, ...IPV6 }),
};

/** An echo request whose identifier tells it from all others. */
export function taggedEcho(path: Path, tag: number): Uint8Array {
  const isIpv6 = path.source.includes(":");
  const message = Uint8Array.of(isIpv6 ? 128 : 8, 0, 0, 0, tag >> 8, tag, 0, 1);
  const protocol = isIpv6 ? PROTOCOLS.icmpv6 : PROTOCOLS.icmp;
  const packet = ipPacket(path, message, { protocol });
  const pseudo = isIpv6
    ? bytes(packet.subarray(8, 40), Uint8Array.of(0, 0, 0, 8, 0, 0, 0, 58))
    : new Uint8Array();
  new DataView(packet.buffer).setUint16(
    packet.length - 6,
    checksum(bytes(pseudo, message)),
  );
  return packet;
}
