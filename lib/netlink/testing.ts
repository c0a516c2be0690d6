/**
 * For tests of what is built on a connection, without a kernel.
 *
 * @module
 */

import { Address } from "../inet/mod.ts";
import type { Bytes } from "../linux/mod.ts";
import {
  IFLA_ADDRESS,
  IFLA_IFALIAS,
  IFLA_IFNAME,
  IFLA_INFO_KIND,
  IFLA_LINK,
  IFLA_LINKINFO,
  IFLA_MTU,
  type Link,
} from "./link/link.ts";
import type { Transport } from "./connection/connection.ts";
import { type Message, parseMessages } from "./message/message_reader.ts";
import { MessageWriter } from "./message/message_writer.ts";
import type { Request } from "./message/request.ts";
import { parseMac } from "./message/names.ts";
import type { AddressEntry } from "./route/address.ts";

/** Bytes as hexdump(1) or strace(1) shows them: two digits each, blanks between. */
export function unhex(text: string): Uint8Array {
  const bytes = text.trim().split(/\s+/).map((byte) => parseInt(byte, 16));
  return Uint8Array.from(bytes);
}

/** The inverse of `unhex()`. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"))
    .join(" ");
}

/** What a request says to the kernel, behind the message header. */
export function bytesOf(request: Request): string {
  const writer = new MessageWriter();
  request.write(writer);
  return hex(writer.bytes());
}

/** The address of a link, such as `10.0.0.1/24`, as the kernel shows one that stays. */
export function addressEntry(
  index: number,
  cidr: string,
  changes: Partial<AddressEntry> = {},
): AddressEntry {
  const [text = "", length] = cidr.split("/");
  const address = Address.parse(text);
  return {
    index,
    family: address.family,
    prefix: { address, length: Number(length) },
    scope: "global",
    permanent: true,
    tentative: false,
    dadFailed: false,
    flags: 0,
    ...changes,
  };
}

/** The kernel's answer to `linkGet()`: name, kind, addresses and state of the link. */
export function linkMessage(link: Link): Message {
  const { index, flags, mac, alias, kind, peerIndex } = link;
  return messageOf((writer) => {
    writer.u32(0); // family and type
    writer.u32(index);
    writer.u32(flags);
    writer.u32(0);
    writer.attributeString(IFLA_IFNAME, link.name);
    writer.attributeU32(IFLA_MTU, link.mtu);
    if (mac) writer.attributeBytes(IFLA_ADDRESS, parseMac(mac));
    if (alias) writer.attributeString(IFLA_IFALIAS, alias);
    if (peerIndex) writer.attributeU32(IFLA_LINK, peerIndex);
    if (kind) {
      writer.nest(
        IFLA_LINKINFO,
        () => writer.attributeString(IFLA_INFO_KIND, kind),
      );
    }
  });
}

function messageOf(body: (writer: MessageWriter) => void): Message {
  const writer = new MessageWriter();
  writer.message({ type: 0, flags: 0, sequence: 0 }, () => body(writer));
  const [message] = parseMessages(writer.bytes());
  if (message !== undefined) return message;
  throw new Error("Cannot go on: nothing was written");
}

/** A reply: a message without its header. */
export interface Answer {
  /** The message type; 2 is NLMSG_ERROR, 3 is NLMSG_DONE. */
  readonly type: number;
  /** What follows the header. */
  readonly payload: Uint8Array;
}

/** An acknowledgement with that error number, 0 for done. */
export function acknowledge(request: Message, errno: number = 0): Answer {
  const payload = new DataView(new ArrayBuffer(20));
  payload.setInt32(0, -errno, true);
  payload.setUint32(4, 16 + request.payload.bytes.byteLength, true);
  payload.setUint16(8, request.type, true);
  payload.setUint32(12, request.sequence, true);
  return { type: 2, payload: new Uint8Array(payload.buffer) };
}

/** The end of a list. */
export const DONE: Answer = { type: 3, payload: new Uint8Array(4) };

/** A kernel end that answers each request as a test says. */
export class AnsweringTransport implements Transport {
  /** As a socket's. */
  readonly portId = 4711;
  /** The requests so far. */
  readonly requests: Message[] = [];
  /** Whether it was disposed. */
  closed = false;
  readonly #answer: (request: Message) => readonly Answer[];
  readonly #queue: Uint8Array[] = [];

  /** `answer` gets every request, and gives the replies in order. */
  constructor(answer: (request: Message) => readonly Answer[]) {
    this.#answer = answer;
  }

  /** Takes a datagram of requests. */
  sendNow(bytes: Bytes): void {
    for (const request of parseMessages(bytes.slice())) {
      this.requests.push(request);
      for (const answer of this.#answer(request)) {
        this.#queue.push(this.#datagram(answer, request.sequence));
      }
    }
  }

  /** As `sendNow()`. */
  async sendOffThread(bytes: Bytes): Promise<void> {
    this.sendNow(bytes);
  }

  /** Gives one datagram. */
  receiveNow(buffer: Bytes): number | undefined {
    const bytes = this.#queue.shift();
    if (bytes === undefined) return undefined;
    buffer.set(bytes);
    return bytes.byteLength;
  }

  /** As `receiveNow()`. */
  async receiveOffThread(buffer: Bytes): Promise<number | undefined> {
    return this.receiveNow(buffer);
  }

  /** As dispose. */
  async closeOffThread(): Promise<void> {
    this.closed = true;
  }

  /** Only notes it. */
  [Symbol.dispose](): void {
    this.closed = true;
  }

  #datagram({ type, payload }: Answer, sequence: number): Uint8Array {
    const writer = new MessageWriter();
    // NLM_F_CAPPED, as the product's sockets ask for.
    const flags = type === 2 ? 0x100 : 0;
    writer.message({ type, flags, sequence }, () => {
      for (const byte of payload) writer.u8(byte);
    });
    const bytes = writer.bytes();
    new DataView(bytes.buffer).setUint32(12, this.portId, true);
    return bytes;
  }
}
