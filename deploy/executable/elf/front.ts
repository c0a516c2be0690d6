import { compilerVersion } from "./compiler.ts";
import { Elf, PROGRAM_HEADER_SIZE, Segment } from "./elf.ts";
import { compileFlat, type FlatImage } from "./flat.ts";

const SOURCE = new URL("front.c", import.meta.url).pathname;

/** Where `struct header` of front.c has its numbers, and PT_INTERP. */
const SELF_AT = 8;
const ENTRY_AT = 16;
const INTERP_AT = 24;

/**
 * Compiles front.c. Undefined without a C compiler: the executable works
 * without it, but a JavaScript runtime starts for each call of the plugin.
 * `patienceS` is how long it waits for coild, in seconds; tests have no 70.
 *
 * @throws {CompilerError} when the compiler refuses it
 */
export async function compileFront(
  { patienceS }: { readonly patienceS?: number } = {},
): Promise<FlatImage | undefined> {
  if (await compilerVersion() === undefined) return undefined;
  const flags = patienceS === undefined ? [] : [`-DPATIENCE_S=${patienceS}`];
  return await compileFlat(SOURCE, { flags });
}

/**
 * A dynamic executable that starts with the front; changes the bytes given. Its PT_INTERP makes room for
 * the front's segment, so the kernel starts the front and not ld.so; the front
 * has what it needs to load ld.so itself. It names no socket yet.
 *
 * @throws {ElfError} when the executable is not dynamic
 */
export function addFront(
  executable: Uint8Array<ArrayBuffer>,
  front: FlatImage,
): Uint8Array<ArrayBuffer> {
  const elf = new Elf(executable);
  const interp = elf.header(Segment.INTERP);
  const image = front.bytes.slice();
  const view = new DataView(image.buffer);
  const place = elf.placeBehind();
  view.setBigUint64(SELF_AT, place.vaddr, true);
  view.setBigUint64(ENTRY_AT, elf.entry, true);
  const header = elf.bytes.subarray(interp.at, interp.at + PROGRAM_HEADER_SIZE);
  image.set(header, INTERP_AT);
  elf.entry = place.vaddr + front.entry;
  return elf.append(image, { ...place, instead: interp });
}
