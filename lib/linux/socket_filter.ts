import { type Bytes, lastError, libc } from "./libc.ts";
import { SOL_SOCKET } from "./socket_numbers.ts";

/** SO_ATTACH_FILTER of `<asm-generic/socket.h>`. */
const SO_ATTACH_FILTER = 26;
/** struct sock_filter of `<linux/filter.h>`. */
const INSTRUCTION_SIZE = 8;
/** What is compared at once. */
const WORD_SIZE = 4;
/** struct sock_fprog: a length, padding, a pointer. */
const PROGRAM_SIZE = 16;

/** Operations of classic BPF, `<linux/bpf_common.h>`: load from the packet, and, compare, return. */
export const FILTER_CODES = {
  loadWord: 0x20,
  loadHalf: 0x28,
  loadByte: 0x30,
  and: 0x54,
  jumpEqual: 0x15,
  return: 0x06,
} as const;

/** What a filter returns to let a packet through: all of its bytes. */
const ACCEPT = 0xffffffff;

/** One instruction of a classic BPF program, `struct sock_filter`. */
export interface FilterInstruction {
  /** One of {@linkcode FILTER_CODES}. */
  readonly code: number;
  /** How many instructions to skip when a comparison holds. */
  readonly jt?: number;
  /** How many to skip when it does not. */
  readonly jf?: number;
  /** The operand. */
  readonly k: number;
}

/**
 * A part of a program: ends it and lets the packet through if all comparisons
 * hold, else goes on behind. At most 255 instructions.
 */
export function acceptIf(
  comparisons: readonly FilterInstruction[],
): FilterInstruction[] {
  const end = { code: FILTER_CODES.return, k: ACCEPT };
  const jumps = comparisons.map((instruction, i) =>
    instruction.code === FILTER_CODES.jumpEqual
      ? { ...instruction, jt: 0, jf: comparisons.length - i }
      : instruction
  );
  return [...jumps, end];
}

/** The comparisons of bytes of a packet, for {@linkcode acceptIf}. Their number is a multiple of four. */
export function bytesEqual(at: number, bytes: Bytes): FilterInstruction[] {
  const { buffer, byteOffset, byteLength } = bytes;
  const view = new DataView(buffer, byteOffset, byteLength);
  const count = byteLength / WORD_SIZE;
  const words = Array.from({ length: count }, (_, i) => i * WORD_SIZE);
  return words.flatMap((offset) => [
    { code: FILTER_CODES.loadWord, k: at + offset },
    { code: FILTER_CODES.jumpEqual, k: view.getUint32(offset) },
  ]);
}

/**
 * Has the kernel throw away messages for a socket before they are queued. The
 * kernel copies the program.
 *
 * @throws {LinuxError} when the kernel refuses the program
 */
export function attachFilter(
  fd: number,
  program: readonly FilterInstruction[],
): void {
  // The header and what it points to are one buffer: the call holds it. A
  // second one, known by its pointer alone, could be collected before.
  const buffer = new ArrayBuffer(
    PROGRAM_SIZE + program.length * INSTRUCTION_SIZE,
  );
  const bytes = new Uint8Array(buffer);
  const view = new DataView(buffer);
  const start = Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes));
  view.setUint16(0, program.length, true);
  view.setBigUint64(8, start + BigInt(PROGRAM_SIZE), true);
  for (const [i, instruction] of program.entries()) {
    const at = PROGRAM_SIZE + i * INSTRUCTION_SIZE;
    view.setUint16(at, instruction.code, true);
    view.setUint8(at + 2, instruction.jt ?? 0);
    view.setUint8(at + 3, instruction.jf ?? 0);
    view.setUint32(at + 4, instruction.k, true);
  }
  const result = libc().symbols.setsockopt(
    fd,
    SOL_SOCKET,
    SO_ATTACH_FILTER,
    bytes,
    PROGRAM_SIZE,
  );
  if (result < 0) throw lastError("attach a socket filter", "setsockopt");
}
