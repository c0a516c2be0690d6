import { RTM_GETLINK } from "../message/constants.ts";
import {
  IFINFOMSG_SIZE,
  IFLA_STATS64,
  type LinkSelector,
  linkText,
} from "./link.ts";
import { selectorWriter } from "./link_writer.ts";
import { type Message, Payload } from "../message/message_reader.ts";
import type { Request } from "../message/request.ts";

/** What has gone through a link since it was made. */
export interface LinkCounters {
  /** Packets received. */
  readonly receivedPackets: bigint;
  /** Packets sent. */
  readonly sentPackets: bigint;
  /** Bytes received. */
  readonly receivedBytes: bigint;
  /** Bytes sent. */
  readonly sentBytes: bigint;
}

/** Asks for the counters of one link; `onCounters` gets them. Refused with ENODEV when there is no such link. */
export function linkGetCounters(
  selector: LinkSelector,
  onCounters: (counters: LinkCounters) => void,
): Request {
  return {
    type: RTM_GETLINK,
    flags: 0,
    describe: () => `get counters of link ${linkText(selector)}`,
    write: selectorWriter(selector),
    onReply: (message) => onCounters(parseLinkCounters(message)),
  };
}

/**
 * Reads the `struct rtnl_link_stats64` of an RTM_NEWLINK: its first four numbers.
 *
 * @throws {SyntaxError} when the message is malformed or has none
 */
export function parseLinkCounters(message: Message): LinkCounters {
  const attributes = message.payload.attributes(IFINFOMSG_SIZE);
  const numbers = new Payload(
    attributes.bytes(IFLA_STATS64) ?? new Uint8Array(),
  );
  return {
    receivedPackets: numbers.u64(0),
    sentPackets: numbers.u64(8),
    receivedBytes: numbers.u64(16),
    sentBytes: numbers.u64(24),
  };
}
