import {
  acceptIf,
  FILTER_CODES,
  type FilterInstruction,
} from "../../linux/mod.ts";
import { NLMSG_ERROR } from "../message/constants.ts";

/** One byte of a message, counted from its header, under a mask. */
export interface ByteTest {
  readonly offset: number;
  /** Default: all bits. */
  readonly mask?: number;
  readonly value: number;
}

/** A kind of messages: of one type, with all of these bytes. */
export interface MessagePattern {
  readonly type: number;
  readonly bytes?: readonly ByteTest[];
}

/** Of `struct nlmsghdr`. */
const TYPE_OFFSET = 4;
const PORT_ID_OFFSET = 12;

/**
 * A socket filter that lets through messages of these patterns which no socket
 * of `ignoredPortIds` caused, and acknowledgements. Pure. Reading past the end
 * of a message drops it.
 *
 * Netlink is in the byte order of the machine, which is little-endian here;
 * the filter machine loads numbers big-endian.
 */
export function notificationFilter(
  patterns: readonly MessagePattern[],
  ignoredPortIds: readonly number[],
): FilterInstruction[] {
  const acknowledgement = { type: NLMSG_ERROR };
  return [
    ...accepting(acknowledgement),
    ...ignoredPortIds.flatMap((portId): FilterInstruction[] => [
      { code: FILTER_CODES.loadWord, k: PORT_ID_OFFSET },
      { code: FILTER_CODES.jumpEqual, k: swap32(portId), jt: 0, jf: 1 },
      { code: FILTER_CODES.return, k: 0 },
    ]),
    ...patterns.flatMap(accepting),
    { code: FILTER_CODES.return, k: 0 },
  ];
}

/** Ends the program if a message is of the pattern, else goes on behind. */
function accepting(pattern: MessagePattern): FilterInstruction[] {
  return acceptIf([
    { code: FILTER_CODES.loadHalf, k: TYPE_OFFSET },
    { code: FILTER_CODES.jumpEqual, k: swap16(pattern.type) },
    ...(pattern.bytes ?? []).flatMap(({ offset, mask = 0xff, value }) => [
      { code: FILTER_CODES.loadByte, k: offset },
      { code: FILTER_CODES.and, k: mask },
      { code: FILTER_CODES.jumpEqual, k: value & mask },
    ]),
  ]);
}

function swap16(value: number): number {
  return ((value & 0xff) << 8) | (value >>> 8);
}

function swap32(value: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, value, true);
  return view.getUint32(0);
}
