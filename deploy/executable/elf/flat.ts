import { compileC, CompilerError } from "./compiler.ts";
import { Elf } from "./elf.ts";

const SCRIPT = new URL("flat.ld", import.meta.url).pathname;

/** Code that needs no relocation: a header of its own, then the entry point. */
export interface FlatImage {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Offset of the entry point. */
  readonly entry: bigint;
}

/** Compiles a C program for flat.ld. @throws {CompilerError} */
export async function compileFlat(
  source: string,
  { flags = [], ...options }: {
    readonly compiler?: string;
    readonly flags?: readonly string[];
  } = {},
): Promise<FlatImage> {
  const args = ["-T", SCRIPT, ...flags];
  const elf = new Elf(await compileC(source, args, options));
  const [image] = elf.loads;
  if (image === undefined) throw new CompilerError(`${source} gave no code`);
  const end = Number(image.offset + image.filesz);
  const bytes = elf.bytes.slice(Number(image.offset), end);
  return { bytes, entry: elf.entry - image.vaddr };
}
