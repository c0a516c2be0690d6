// The parts of the ELF format that matter for packing: 64-bit, little-endian.
// Field offsets and numbers: elf(5).

const MAGIC = 0x7f454c46;
const ET_DYN = 3;
const EM_X86_64 = 62;
/** The largest page size of the supported machines. */
const PAGE_SIZE = 0x10000;

export const PROGRAM_HEADER_SIZE = 56;

/** Types of program headers. */
export const Segment = { LOAD: 1, DYNAMIC: 2, INTERP: 3, NOTE: 4 } as const;

export interface ProgramHeader {
  readonly type: number;
  /** Where the header itself is in the file. */
  readonly at: number;
  readonly offset: bigint;
  readonly vaddr: bigint;
  readonly filesz: bigint;
  readonly memsz: bigint;
}

/** Where a segment is: in the file, and in memory. */
export interface Place {
  readonly offset: number;
  readonly vaddr: bigint;
}

/** A file that cannot be packed. */
export class ElfError extends Error {
  override readonly name = "ElfError";
}

/** A position-independent executable. */
export class Elf {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly view: DataView;
  readonly headers: readonly ProgramHeader[];

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const isElf64 = bytes.length > 64 && this.view.getUint32(0) === MAGIC &&
      bytes[4] === 2 && bytes[5] === 1;
    if (!isElf64) throw new ElfError("not a 64-bit little-endian ELF");
    if (this.view.getUint16(16, true) !== ET_DYN) {
      throw new ElfError("not a position-independent executable");
    }
    const table = Number(this.u64(32));
    const count = this.view.getUint16(56, true);
    this.headers = Array.from({ length: count }, (_, i) => {
      const at = table + i * PROGRAM_HEADER_SIZE;
      return {
        type: this.view.getUint32(at, true),
        at,
        offset: this.u64(at + 8),
        vaddr: this.u64(at + 16),
        filesz: this.u64(at + 32),
        memsz: this.u64(at + 40),
      };
    });
  }

  /** Address of the first instruction. */
  get entry(): bigint {
    return this.u64(24);
  }

  set entry(address: bigint) {
    this.view.setBigUint64(24, address, true);
  }

  get loads(): readonly ProgramHeader[] {
    return this.headers.filter(({ type }) => type === Segment.LOAD);
  }

  /**
   * The first program header of a type.
   *
   * @throws {ElfError} when there is none
   */
  header(type: number): ProgramHeader {
    return this.headers.find((header) => header.type === type) ??
      raise(`no program header of type ${type}`);
  }

  /** The next place that is free, in the file and in memory. */
  placeBehind(): Place {
    const end = Math.max(...this.loads.map((l) => Number(l.vaddr + l.memsz)));
    return {
      offset: roundUp(this.bytes.length),
      vaddr: BigInt(roundUp(end)),
    };
  }

  /**
   * The file with one more segment of code, at a place from `placeBehind()`. Its
   * program header takes the room of another, which goes; it becomes the last,
   * since PT_LOADs are in order of addresses.
   */
  append(
    segment: Uint8Array,
    { offset, vaddr, instead }: Place & { readonly instead: ProgramHeader },
  ): Uint8Array<ArrayBuffer> {
    const last = this.headers.at(-1) ?? raise("no program headers");
    const end = last.at + PROGRAM_HEADER_SIZE;
    this.bytes.copyWithin(instead.at, instead.at + PROGRAM_HEADER_SIZE, end);
    this.view.setUint32(last.at, Segment.LOAD, true);
    this.view.setUint32(last.at + 4, 5, true); // PF_R | PF_X
    const size = segment.length;
    const fields = [offset, vaddr, vaddr, size, size, PAGE_SIZE].map(BigInt);
    fields.forEach((field, i) => {
      this.view.setBigUint64(last.at + 8 + 8 * i, field, true);
    });
    const whole = new Uint8Array(offset + size);
    whole.set(this.bytes);
    whole.set(segment, offset);
    return whole;
  }

  u64(at: number): bigint {
    return this.view.getBigUint64(at, true);
  }

  /**
   * Address of the GOT slot that ld.so fills with the address of libc's
   * `environ`.
   *
   * @throws {ElfError} when the file does not import it
   */
  environSlot(): bigint {
    const tags = this.#dynamicTags();
    const tag = (n: bigint) => tags.get(n) ?? raise(`no dynamic tag ${n}`);
    // DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ
    const strings = this.#offsetOf(tag(5n));
    const symbols = this.#offsetOf(tag(6n));
    const rela = this.#offsetOf(tag(7n));
    const end = rela + Number(tag(8n));
    // R_X86_64_GLOB_DAT, R_AARCH64_GLOB_DAT
    const isX86 = this.view.getUint16(18, true) === EM_X86_64;
    const globDat = isX86 ? 6n : 1025n;
    for (let at = rela; at < end; at += 24) {
      const info = this.u64(at + 8);
      if ((info & 0xffffffffn) !== globDat) continue;
      const symbol = symbols + Number(info >> 32n) * 24;
      const name = this.#text(strings + this.view.getUint32(symbol, true));
      if (/^(_|__)?environ$/.test(name)) return this.u64(at);
    }
    throw new ElfError("it does not import environ");
  }

  #dynamicTags(): Map<bigint, bigint> {
    const tags = new Map<bigint, bigint>();
    let at = Number(this.header(Segment.DYNAMIC).offset);
    for (; this.u64(at) !== 0n; at += 16) {
      tags.set(this.u64(at), this.u64(at + 8));
    }
    return tags;
  }

  #offsetOf(vaddr: bigint): number {
    const segment =
      this.loads.find((load) =>
        vaddr >= load.vaddr && vaddr < load.vaddr + load.filesz
      ) ?? raise("address outside of the file");
    return Number(vaddr - segment.vaddr + segment.offset);
  }

  #text(from: number): string {
    const end = this.bytes.indexOf(0, from);
    return new TextDecoder().decode(this.bytes.subarray(from, end));
  }
}

function roundUp(size: number): number {
  return Math.ceil(size / PAGE_SIZE) * PAGE_SIZE;
}

function raise(message: string): never {
  throw new ElfError(message);
}
