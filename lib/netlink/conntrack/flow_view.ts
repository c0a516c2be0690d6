import { Address, type Family } from "../../inet/mod.ts";
import { AttributeCursor } from "../message/attribute_cursor.ts";
import { familyOf } from "../message/family.ts";
import type { Message } from "../message/message_reader.ts";
import { NFGENMSG_SIZE } from "../message/nfnetlink.ts";
import {
  type ConntrackFlow,
  type ConntrackTcpState,
  TCP_STATES,
} from "./conntrack.ts";
import {
  CTA_IP_V4_DST,
  CTA_IP_V4_SRC,
  CTA_IP_V6_DST,
  CTA_IP_V6_SRC,
  CTA_MARK,
  CTA_PROTO_DST_PORT,
  CTA_PROTO_ICMP_ID,
  CTA_PROTO_ICMPV6_ID,
  CTA_PROTO_NUM,
  CTA_PROTO_SRC_PORT,
  CTA_PROTOINFO,
  CTA_PROTOINFO_TCP,
  CTA_PROTOINFO_TCP_STATE,
  CTA_STATUS,
  CTA_TIMEOUT,
  CTA_TUPLE_IP,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_PROTO,
  CTA_TUPLE_REPLY,
} from "./constants.ts";

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
