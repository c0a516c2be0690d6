import { Address, type Family } from "../../inet/mod.ts";
import { AttributeCursor } from "../message/attribute_cursor.ts";
import { familyOf } from "../message/family.ts";
import type { Message } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import { NFGENMSG_SIZE } from "../message/nfnetlink.ts";

/** Attributes of `<linux/netfilter/nfnetlink_conntrack.h>`. */
export const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_REPLY = 2;
const CTA_STATUS = 3;
const CTA_PROTOINFO = 4;
const CTA_TIMEOUT = 7;
const CTA_MARK = 8;
export const CTA_ID = 12;
export const CTA_ZONE = 18;
const CTA_FILTER = 25;
const CTA_FILTER_ORIG_FLAGS = 1;
const CTA_FILTER_REPLY_FLAGS = 2;
/** Of `net/netfilter/nf_conntrack_netlink.c`. */
const CTA_FILTER_F_CTA_IP_SRC = 1 << 0;
const CTA_TUPLE_IP = 1;
const CTA_TUPLE_PROTO = 2;
const CTA_IP_V4_SRC = 1;
const CTA_IP_V4_DST = 2;
const CTA_IP_V6_SRC = 3;
const CTA_IP_V6_DST = 4;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_SRC_PORT = 2;
const CTA_PROTO_DST_PORT = 3;
const CTA_PROTO_ICMP_ID = 4;
const CTA_PROTO_ICMPV6_ID = 7;
const CTA_PROTOINFO_TCP = 1;
const CTA_PROTOINFO_TCP_STATE = 1;

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

const TCP_STATES = [
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

/** One direction of a flow. */
interface Tuple {
  /** Where in the message the addresses are. */
  source: number;
  destination: number;
  protocol: number;
  sourcePort: number;
  destinationPort: number;
}

/** A flow inside a message: its addresses are made when asked for. Good only as long as the message. */
export class FlowView implements ConntrackFlow {
  readonly family: Family;
  status = 0;
  timeoutSeconds = 0;
  mark = 0;
  tcpState: ConntrackTcpState | undefined;
  readonly #bytes: Uint8Array;
  readonly #original: Tuple = emptyTuple();
  readonly #reply: Tuple = emptyTuple();

  /** Reads the attributes after the header. */
  constructor(bytes: Uint8Array, family: Family) {
    this.family = family;
    this.#bytes = bytes;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const cursor = new AttributeCursor(view, NFGENMSG_SIZE, bytes.byteLength);
    while (cursor.next()) this.#take(cursor);
    for (const tuple of [this.#original, this.#reply]) {
      if (tuple.source === 0 || tuple.destination === 0) {
        throw new SyntaxError(
          "Cannot parse connection: an address is missing or of another family",
        );
      }
    }
  }

  get protocol(): number {
    return this.#original.protocol;
  }

  get originalSource(): Address {
    return this.#address(this.#original.source);
  }

  get originalDestination(): Address {
    return this.#address(this.#original.destination);
  }

  get originalSourcePort(): number {
    return this.#original.sourcePort;
  }

  get originalDestinationPort(): number {
    return this.#original.destinationPort;
  }

  get replySource(): Address {
    return this.#address(this.#reply.source);
  }

  get replyDestination(): Address {
    return this.#address(this.#reply.destination);
  }

  get replySourcePort(): number {
    return this.#reply.sourcePort;
  }

  get replyDestinationPort(): number {
    return this.#reply.destinationPort;
  }

  /** The flow as plain data, good for ever. */
  copy(): ConntrackFlow {
    return {
      family: this.family,
      protocol: this.protocol,
      status: this.status,
      originalSource: this.originalSource,
      originalDestination: this.originalDestination,
      originalSourcePort: this.originalSourcePort,
      originalDestinationPort: this.originalDestinationPort,
      replySource: this.replySource,
      replyDestination: this.replyDestination,
      replySourcePort: this.replySourcePort,
      replyDestinationPort: this.replyDestinationPort,
      timeoutSeconds: this.timeoutSeconds,
      mark: this.mark,
      tcpState: this.tcpState,
    };
  }

  #take(cursor: AttributeCursor): void {
    switch (cursor.type) {
      case CTA_TUPLE_ORIG:
        this.#takeTuple(this.#original, cursor.inner());
        break;
      case CTA_TUPLE_REPLY:
        this.#takeTuple(this.#reply, cursor.inner());
        break;
      case CTA_STATUS:
        this.status = cursor.number(4);
        break;
      case CTA_TIMEOUT:
        this.timeoutSeconds = cursor.number(4);
        break;
      case CTA_MARK:
        this.mark = cursor.number(4);
        break;
      case CTA_PROTOINFO:
        this.tcpState = findTcpState(cursor.inner());
        break;
    }
  }

  #takeTuple(tuple: Tuple, cursor: AttributeCursor): void {
    while (cursor.next()) {
      if (cursor.type === CTA_TUPLE_IP) {
        takeAddresses(tuple, cursor.inner(), this.family);
      } else if (cursor.type === CTA_TUPLE_PROTO) {
        takeProtocol(tuple, cursor.inner());
      }
    }
  }

  #address(at: number): Address {
    const size = this.family === "ipv4" ? 4 : 16;
    return Address.fromBytes(this.#bytes.subarray(at, at + size));
  }
}

function emptyTuple(): Tuple {
  return {
    source: 0,
    destination: 0,
    protocol: 0,
    sourcePort: 0,
    destinationPort: 0,
  };
}

function takeAddresses(
  tuple: Tuple,
  cursor: AttributeCursor,
  family: Family,
): void {
  const [size, source, destination] = family === "ipv4"
    ? [4, CTA_IP_V4_SRC, CTA_IP_V4_DST]
    : [16, CTA_IP_V6_SRC, CTA_IP_V6_DST];
  while (cursor.next()) {
    if (cursor.size !== size) continue;
    if (cursor.type === source) tuple.source = cursor.at;
    else if (cursor.type === destination) tuple.destination = cursor.at;
  }
}

function takeProtocol(tuple: Tuple, cursor: AttributeCursor): void {
  while (cursor.next()) {
    switch (cursor.type) {
      case CTA_PROTO_NUM:
        tuple.protocol = cursor.number(1);
        break;
      case CTA_PROTO_SRC_PORT:
        tuple.sourcePort = cursor.number(2);
        break;
      case CTA_PROTO_DST_PORT:
        tuple.destinationPort = cursor.number(2);
        break;
      case CTA_PROTO_ICMP_ID:
      case CTA_PROTO_ICMPV6_ID:
        tuple.sourcePort = cursor.number(2);
        tuple.destinationPort = tuple.sourcePort;
        break;
    }
  }
}

function findTcpState(cursor: AttributeCursor): ConntrackTcpState | undefined {
  while (cursor.next()) {
    if (cursor.type !== CTA_PROTOINFO_TCP) continue;
    const tcp = cursor.inner();
    while (tcp.next()) {
      if (tcp.type === CTA_PROTOINFO_TCP_STATE) {
        return TCP_STATES[tcp.number(1)];
      }
    }
  }
  return undefined;
}

/**
 * Reads a connection; undefined when it is not of IP.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseFlow(message: Message): FlowView | undefined {
  const family = familyOf(message.payload.u8(0));
  return family && new FlowView(message.payload.bytes, family);
}
