import type { Address, Family } from "../../inet/mod.ts";
import {
  NLM_F_CREATE,
  NLM_F_REPLACE,
  RTM_DELNEIGH,
  RTM_GETNEIGH,
  RTM_NEWNEIGH,
} from "../message/constants.ts";
import { familyNumber, familyOf, parseIp } from "../message/family.ts";
import type { Message } from "../message/message_reader.ts";
import type { MessageWriter } from "../message/message_writer.ts";
import { formatMac, parseMac } from "../message/names.ts";
import type { Request } from "../message/request.ts";

/** Attributes of `<linux/neighbour.h>`. */
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NDA_IFINDEX = 8;
const NDA_PROTOCOL = 12;
/** struct ndmsg. */
const NDMSG_SIZE = 12;

/** State of a neighbour, NUD_… of `<linux/neighbour.h>`. */
export type NeighbourState =
  | "none"
  | "incomplete"
  | "reachable"
  | "stale"
  | "delay"
  | "probe"
  | "failed"
  | "noarp"
  | "permanent";

const STATES: ReadonlyMap<number, NeighbourState> = new Map([
  [0, "none"],
  [0x01, "incomplete"],
  [0x02, "reachable"],
  [0x04, "stale"],
  [0x08, "delay"],
  [0x10, "probe"],
  [0x20, "failed"],
  [0x40, "noarp"],
  [0x80, "permanent"],
]);

const STATE_NUMBERS: ReadonlyMap<NeighbourState, number> = new Map(
  Array.from(STATES, ([number, state]) => [state, number]),
);

/** A neighbour as the kernel describes it. */
export interface Neighbour {
  /** The index of the link. */
  readonly index: number;
  /** The IP address of the neighbour. */
  readonly address: Address;
  /** Absent while it is not known. */
  readonly mac?: string | undefined;
  /** What the kernel thinks of it. */
  readonly state: NeighbourState | number;
  /** Who made it, as of routes; absent where the kernel learnt it. */
  readonly protocol?: number | undefined;
}

/** A neighbour to add, in place of what was known about it. */
export interface NewNeighbour {
  /** The index of the link. */
  readonly index: number;
  /** The IP address of the neighbour. */
  readonly address: Address;
  /** The Ethernet address of the neighbour. */
  readonly mac: string;
  /** `permanent` unless given. */
  readonly state?: NeighbourState;
  /** Program that made it: a number of rtnetlink, as a route's. */
  readonly protocol?: number | undefined;
}

/** Adds a neighbour, in place of what was known about it. */
export function neighbourReplace(neighbour: NewNeighbour): Request {
  const { index, address } = neighbour;
  const mac = parseMac(neighbour.mac);
  const state = STATE_NUMBERS.get(neighbour.state ?? "permanent") ?? 0;
  return {
    type: RTM_NEWNEIGH,
    flags: NLM_F_CREATE | NLM_F_REPLACE,
    describe: () => `replace neighbour "${address}" of link ${index}`,
    write(writer) {
      writeNeighbourHeader(writer, { family: address.family, index, state });
      writer.attributeBytes(NDA_DST, address.toBytes());
      writer.attributeBytes(NDA_LLADDR, mac);
      if (neighbour.protocol !== undefined) {
        writer.attributeU8(NDA_PROTOCOL, neighbour.protocol);
      }
    },
  };
}

/** Forgets a neighbour. Refused with ENOENT when it is not there. */
export function neighbourDelete(
  { index, address }: Pick<Neighbour, "index" | "address">,
): Request {
  return {
    type: RTM_DELNEIGH,
    flags: 0,
    describe: () => `delete neighbour "${address}" of link ${index}`,
    write(writer) {
      writeNeighbourHeader(writer, { family: address.family, index, state: 0 });
      writer.attributeBytes(NDA_DST, address.toBytes());
    },
  };
}

/** Asks for one neighbour, however many there are; `onNeighbour` gets it. Refused with ENOENT when it is not there. */
export function neighbourGet(
  { index, address }: Pick<Neighbour, "index" | "address">,
  onNeighbour: (neighbour: Neighbour) => void,
): Request {
  return {
    type: RTM_GETNEIGH,
    flags: 0,
    describe: () => `get neighbour "${address}" of link ${index}`,
    write(writer) {
      writeNeighbourHeader(writer, { family: address.family, index, state: 0 });
      writer.attributeBytes(NDA_DST, address.toBytes());
    },
    onReply(message) {
      const neighbour = parseNeighbour(message);
      if (neighbour !== undefined) onNeighbour(neighbour);
    },
  };
}

/** Writes the filter of a neighbour dump. */
export function writeNeighbourFilter(
  writer: MessageWriter,
  filter: { family: Family | undefined; index?: number },
): void {
  writeNeighbourHeader(writer, { family: filter.family, index: 0, state: 0 });
  if (filter.index !== undefined) {
    writer.attributeU32(NDA_IFINDEX, filter.index);
  }
}

/**
 * Reads an RTM_NEWNEIGH; undefined when it is not of IP.
 *
 * @throws {SyntaxError} when the message is malformed
 */
export function parseNeighbour(message: Message): Neighbour | undefined {
  const { payload } = message;
  const attributes = payload.attributes(NDMSG_SIZE);
  const family = familyOf(payload.u8(0));
  const address = family && parseIp(attributes.bytes(NDA_DST), family);
  if (address === undefined) return undefined;
  const mac = attributes.bytes(NDA_LLADDR);
  const state = payload.u16(8);
  return {
    index: payload.i32(4),
    address,
    mac: mac?.byteLength === 6 ? formatMac(mac) : undefined,
    state: STATES.get(state) ?? state,
    protocol: attributes.u8(NDA_PROTOCOL),
  };
}

/** Writes a `struct ndmsg`. */
export function writeNeighbourHeader(
  writer: MessageWriter,
  fields: { family: Family | undefined; index: number; state: number },
): void {
  writer.u8(familyNumber(fields.family));
  writer.u8(0);
  writer.u16(0);
  writer.u32(fields.index);
  writer.u16(fields.state);
  writer.u8(0); // flags
  writer.u8(0); // type
}
