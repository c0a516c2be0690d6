/**
 * Requests to the kernel that only tests make.
 *
 * @module
 */
import type { LinkSelector } from "../../lib/netlink/mod.ts";
import {
  NLM_F_CREATE,
  NLM_F_EXCL,
  RTM_GETLINK,
} from "../../lib/netlink/message/constants.ts";
import {
  type Message,
  Payload,
} from "../../lib/netlink/message/message_reader.ts";
import type { Request } from "../../lib/netlink/message/request.ts";
import { IFINFOMSG_SIZE, linkText } from "../../lib/netlink/link/link.ts";
import {
  addLink,
  linkWriter,
  type NewLink,
  selectorWriter,
  writeKind,
} from "../../lib/netlink/link/link_writer.ts";
import {
  neighbourReplace,
  type NewNeighbour,
} from "../../lib/netlink/route/neighbour.ts";

/** Of `<linux/if_link.h>`. */
const IFLA_STATS64 = 23;

/** Makes a bridge. Throws as `linkAddVeth()` does. */
export function linkAddBridge(bridge: NewLink): Request {
  return linkAdd("bridge", bridge);
}

/** Makes a dummy: a link that loses what is sent by it, and can hold addresses. Throws as `linkAddVeth()` does. */
export function linkAddDummy(dummy: NewLink): Request {
  return linkAdd("dummy", dummy);
}

function linkAdd(kind: string, link: NewLink): Request {
  const writeLink = linkWriter(link);
  return addLink(`create ${kind} "${link.name}"`, (writer) => {
    writeLink(writer);
    writeKind(writer, kind);
  });
}

/** Adds a neighbour. Refused with EEXIST when it is there. */
export function neighbourAdd(neighbour: NewNeighbour): Request {
  const { index, address } = neighbour;
  return {
    ...neighbourReplace(neighbour),
    flags: NLM_F_CREATE | NLM_F_EXCL,
    describe: () => `add neighbour "${address}" of link ${index}`,
  };
}

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

/** Asks for the counters of one link; `onCounters` gets them. The kernel refuses with ENODEV when there is no such link. */
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
