import type { Address, Family } from "../../inet/mod.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import {
  CTA_FILTER,
  CTA_FILTER_F_CTA_IP_SRC,
  CTA_FILTER_ORIG_FLAGS,
  CTA_FILTER_REPLY_FLAGS,
  CTA_IP_V4_DST,
  CTA_IP_V4_SRC,
  CTA_IP_V6_DST,
  CTA_IP_V6_SRC,
  CTA_PROTO_DST_PORT,
  CTA_PROTO_NUM,
  CTA_PROTO_SRC_PORT,
  CTA_TUPLE_IP,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_PROTO,
  CTA_TUPLE_REPLY,
} from "./constants.ts";

/** The bits of a flow's status that matter most. */
export interface ConntrackStatusBits {
  /** Packets were seen in both directions. */
  readonly seenReply: number;
  /** Not thrown away early when the table is full. */
  readonly assured: number;
  /** The first packet has left. */
  readonly confirmed: number;
  /** The source address or port is translated. */
  readonly srcNat: number;
  /** The destination address or port is translated. */
  readonly dstNat: number;
}

/** Bits of a flow's status, `enum ip_conntrack_status` of `<linux/netfilter/nf_conntrack_common.h>`. */
export const CONNTRACK_STATUS: ConntrackStatusBits = {
  seenReply: 1 << 1,
  assured: 1 << 2,
  confirmed: 1 << 3,
  srcNat: 1 << 4,
  dstNat: 1 << 5,
};

/** Where a TCP connection is, `enum tcp_conntrack` of `<linux/netfilter/nf_conntrack_tcp.h>`. */
export type ConntrackTcpState = typeof TCP_STATES[number];

/** Its names in the order of their numbers. */
export const TCP_STATES = [
  "NONE",
  "SYN_SENT",
  "SYN_RECV",
  "ESTABLISHED",
  "FIN_WAIT",
  "CLOSE_WAIT",
  "LAST_ACK",
  "TIME_WAIT",
  "CLOSE",
  "SYN_SENT2",
] as const;

/** One connection as the kernel tracks it. */
export interface ConntrackFlow {
  /** The family of its addresses. */
  readonly family: Family;
  /** Its IP protocol: 1 is ICMP, 6 is TCP, 17 is UDP, 58 is ICMP for IPv6. */
  readonly protocol: number;
  /** Bits of {@linkcode CONNTRACK_STATUS}. */
  readonly status: number;
  /** Who opened it. */
  readonly originalSource: Address;
  /** The address that it was opened to. */
  readonly originalDestination: Address;
  /** From which port; of ICMP the identifier; 0 where there is none, as for the others. */
  readonly originalSourcePort: number;
  /** To which port; of ICMP the identifier. */
  readonly originalDestinationPort: number;
  /** Who answers: after translation of the destination, the real one. */
  readonly replySource: Address;
  /** Where answers go: after translation of the source, the address in front. */
  readonly replyDestination: Address;
  /** From which port it answers. */
  readonly replySourcePort: number;
  /** To which port it answers: after translation of the source, the port that is in use for it. */
  readonly replyDestinationPort: number;
  /** How long it is kept without another packet. */
  readonly timeoutSeconds: number;
  /** The connection's mark. */
  readonly mark: number;
  /** Only for TCP. */
  readonly tcpState: ConntrackTcpState | undefined;
}

/** Identifies a TCP or UDP connection: how its opener addressed its first packet, before any translation. */
export interface ConntrackTuple {
  /** Its IP protocol: 6 is TCP, 17 is UDP. */
  readonly protocol: number;
  /** Both addresses are of one family. */
  readonly source: Address;
  readonly destination: Address;
  /** In host byte order, as all ports here. */
  readonly sourcePort: number;
  readonly destinationPort: number;
}

/** Whose connections are meant: those that an address opened, or those that it answers. */
export interface ConntrackEnd {
  readonly address: Address;
  readonly role: "opens" | "answers";
}

/**
 * Makes the kernel show the connections of this end only, from Linux 5.8 on;
 * earlier ones show all. It compares IPv6 addresses the wrong way round
 * (`ctnetlink_filter_match_tuple()`, up to 6.18 at least), so it is not asked for those.
 */
export function writeEndFilter(
  writer: MessageWriter,
  { address, role }: ConntrackEnd,
): void {
  if (address.family === "ipv6") return;
  const [tuple, flags] = role === "opens"
    ? [CTA_TUPLE_ORIG, CTA_FILTER_ORIG_FLAGS]
    : [CTA_TUPLE_REPLY, CTA_FILTER_REPLY_FLAGS];
  writer.nest(tuple, () => {
    writer.nest(CTA_TUPLE_IP, () => {
      writer.attributeBytes(CTA_IP_V4_SRC, address.toBytes());
    });
  });
  writer.nest(CTA_FILTER, () => {
    writer.attributeU32(flags, CTA_FILTER_F_CTA_IP_SRC);
  });
}

/** Writes CTA_TUPLE_ORIG. */
export function writeOriginalTuple(
  writer: MessageWriter,
  tuple: ConntrackTuple,
): void {
  const { source, destination, protocol, sourcePort, destinationPort } = tuple;
  const [from, to] = source.family === "ipv4"
    ? [CTA_IP_V4_SRC, CTA_IP_V4_DST]
    : [CTA_IP_V6_SRC, CTA_IP_V6_DST];
  writer.nest(CTA_TUPLE_ORIG, () => {
    writer.nest(CTA_TUPLE_IP, () => {
      writer.attributeBytes(from, source.toBytes());
      writer.attributeBytes(to, destination.toBytes());
    });
    writer.nest(CTA_TUPLE_PROTO, () => {
      writer.attributeU8(CTA_PROTO_NUM, protocol);
      writer.attributeU16Be(CTA_PROTO_SRC_PORT, sourcePort);
      writer.attributeU16Be(CTA_PROTO_DST_PORT, destinationPort);
    });
  });
}
