// Which processor a program is for, and which one Debian's packages here are.
import { ImageError } from "../base/errors.ts";
import type { Architecture } from "./oci.ts";

/** e_machine, elf(5). */
const MACHINES: ReadonlyMap<number, Architecture> = new Map([
  [62, "amd64"],
  [183, "arm64"],
]);

const HERE: Readonly<Record<string, Architecture>> = {
  x86_64: "amd64",
  aarch64: "arm64",
};

/**
 * The processor that the executable is for, which must be the machine's own:
 * the image's libraries are for that one.
 *
 * @throws {ImageError} when it is for another, or no executable at all
 */
export async function requireArchitecture(
  executable: string,
): Promise<Architecture> {
  const found = await architectureOf(executable);
  const here = HERE[Deno.build.arch];
  if (found === here) return found;
  throw new ImageError(
    `Cannot put "${executable}" into an image: it is for ${found}, and Debian's packages here are for ${here}; make the image on a machine of its kind`,
  );
}

async function architectureOf(executable: string): Promise<Architecture> {
  const head = new Uint8Array(64);
  try {
    using file = await Deno.open(executable);
    await file.read(head);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new ImageError(
      `Cannot put "${executable}" into an image: there is no such file`,
      { cause: error },
    );
  }
  const view = new DataView(head.buffer);
  // 64 bits, little-endian.
  const isElf = view.getUint32(0) === 0x7f454c46 && head[4] === 2 &&
    head[5] === 1;
  const machine = isElf ? MACHINES.get(view.getUint16(18, true)) : undefined;
  if (machine !== undefined) return machine;
  throw new ImageError(
    `Cannot put "${executable}" into an image: it is not a Linux executable for amd64 or arm64`,
  );
}
