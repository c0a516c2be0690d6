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

/** "\x7fELF", EI_CLASS and EI_DATA of elf(5). */
const MAGIC = 0x7f454c46;
const CLASS_64 = 2;
const LITTLE_ENDIAN = 1;

/** ET_EXEC and ET_DYN: what can be executed. */
const EXECUTABLE_TYPES: ReadonlySet<number> = new Set([2, 3]);

/** PT_LOAD and PT_INTERP: what the kernel reads to start a program. */
const LOAD = 1;
const INTERPRETER = 3;

/** Sizes of Elf64_Ehdr and Elf64_Phdr. */
const HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;

/** A part of a file: one that is loaded, or the program headers. */
export interface Segment {
  readonly offset: number;
  readonly sizeBytes: number;
}

/** The machine that an ELF file is for, from its first bytes; undefined for another file. */
export function machineOf(start: Uint8Array): string | undefined {
  const view = viewOf(start);
  if (start.length < 20 || view.getUint32(0) !== MAGIC) return undefined;
  const number = view.getUint16(18, start[5] === LITTLE_ENDIAN);
  return MACHINES.get(number) ?? `machine ${number}`;
}

/** The program headers that an executable for this machine says it has, from its first bytes; undefined for another file. */
export function programHeadersOf(start: Uint8Array): Segment | undefined {
  const isWhole = start.length >= HEADER_BYTES && start[4] === CLASS_64 &&
    start[5] === LITTLE_ENDIAN;
  if (!isWhole || machineOf(start) !== Deno.build.arch) return undefined;
  const view = viewOf(start);
  const isExecutable = EXECUTABLE_TYPES.has(view.getUint16(16, true)) &&
    view.getUint16(54, true) === PROGRAM_HEADER_BYTES;
  const count = view.getUint16(56, true);
  if (!isExecutable || count === 0) return undefined;
  return {
    offset: Number(view.getBigUint64(32, true)),
    sizeBytes: count * PROGRAM_HEADER_BYTES,
  };
}

/** Whether a file of this size has all that its program headers load. */
export function isAllThere(table: Uint8Array, fileBytes: number): boolean {
  const view = viewOf(table);
  let loads = 0;
  for (let at = 0; at < table.length; at += PROGRAM_HEADER_BYTES) {
    const type = view.getUint32(at, true);
    if (type !== LOAD && type !== INTERPRETER) continue;
    const end = view.getBigUint64(at + 8, true) +
      view.getBigUint64(at + 32, true);
    if (end > BigInt(fileBytes)) return false;
    if (type === LOAD) loads++;
  }
  return loads > 0;
}

/** The segment in which an executable for this machine starts; undefined for another file. */
export async function entrySegmentOf(
  file: Deno.FsFile,
): Promise<Segment | undefined> {
  const start = await readAt(file, { offset: 0, sizeBytes: HEADER_BYTES });
  const place = programHeadersOf(start);
  if (place === undefined) return undefined;
  const entry = viewOf(start).getBigUint64(24, true);
  const table = await readAt(file, place);
  const view = viewOf(table);
  const last = table.length - PROGRAM_HEADER_BYTES;
  for (let at = 0; at <= last; at += PROGRAM_HEADER_BYTES) {
    const vaddr = view.getBigUint64(at + 16, true);
    const size = view.getBigUint64(at + 32, true);
    const isHere = view.getUint32(at, true) === LOAD && entry >= vaddr &&
      entry < vaddr + size;
    if (!isHere) continue;
    return {
      offset: Number(view.getBigUint64(at + 8, true)),
      sizeBytes: Number(size),
    };
  }
  return undefined;
}

/** Less than asked for where the file ends. */
export async function readAt(
  file: Deno.FsFile,
  { offset, sizeBytes }: {
    readonly offset: number;
    readonly sizeBytes: number;
  },
): Promise<Uint8Array> {
  const bytes = new Uint8Array(sizeBytes);
  await file.seek(offset, Deno.SeekMode.Start);
  let length = 0;
  while (length < sizeBytes) {
    const count = await file.read(bytes.subarray(length));
    if (count === null) break;
    length += count;
  }
  return bytes.subarray(0, length);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
