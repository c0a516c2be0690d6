/** `e_machine` of elf(5), by the names that Deno and `uname -m` have. */
const MACHINES: ReadonlyMap<number, string> = new Map([
  [3, "i386"],
  [40, "arm"],
  [62, "x86_64"],
  [183, "aarch64"],
  [243, "riscv"],
  [21, "ppc64"],
  [22, "s390x"],
]);

/** "\x7fELF" and EI_DATA of elf(5). */
const MAGIC = 0x7f454c46;
const LITTLE_ENDIAN = 1;

/** The machine that an ELF file is for, from its first bytes; undefined for another file. */
export function machineOf(start: Uint8Array): string | undefined {
  const view = new DataView(start.buffer, start.byteOffset, start.byteLength);
  if (start.length < 20 || view.getUint32(0) !== MAGIC) return undefined;
  const number = view.getUint16(18, start[5] === LITTLE_ENDIAN);
  return MACHINES.get(number) ?? `machine ${number}`;
}
