import type { FilterInstruction } from "../../linux/mod.ts";
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

/** Classic BPF of `<linux/bpf_common.h>`: load from the packet, and, compare, return. */
const LOAD_WORD = 0x20;
const LOAD_HALF = 0x28;
const LOAD_BYTE = 0x30;
const AND = 0x54;
const JUMP_EQUAL = 0x15;
const RETURN = 0x06;
const ACCEPT_ALL_BYTES = 0xffffffff;
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
      { code: LOAD_WORD, k: PORT_ID_OFFSET },
      { code: JUMP_EQUAL, k: swap32(portId), jt: 0, jf: 1 },
      { code: RETURN, k: 0 },
    ]),
    ...patterns.flatMap(accepting),
    { code: RETURN, k: 0 },
  ];
}

/** Ends the program if a message is of the pattern, else goes on behind. */
function accepting(pattern: MessagePattern): FilterInstruction[] {
  const tests: FilterInstruction[][] = [
    [
      { code: LOAD_HALF, k: TYPE_OFFSET },
      { code: JUMP_EQUAL, k: swap16(pattern.type) },
    ],
    ...(pattern.bytes ?? []).map(({ offset, mask = 0xff, value }) => [
      { code: LOAD_BYTE, k: offset },
      { code: AND, k: mask },
      { code: JUMP_EQUAL, k: value & mask },
    ]),
  ];
  const program = [...tests.flat(), { code: RETURN, k: ACCEPT_ALL_BYTES }];
  return program.map((instruction, i) =>
    instruction.code === JUMP_EQUAL
      ? { ...instruction, jt: 0, jf: program.length - i - 1 }
      : instruction
  );
}

function swap16(value: number): number {
  return ((value & 0xff) << 8) | (value >>> 8);
}

function swap32(value: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, value, true);
  return view.getUint32(0);
}
