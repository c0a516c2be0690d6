// Another version of Coil's image, to upgrade to.
import { createHash } from "node:crypto";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { buildImage } from "../../deploy/image/mod.ts";
import {
  findSocketField,
  SOCKET_BYTES,
} from "../../roles/coil_installer/base/front.ts";

/** Name of the image, as manifests have it. */
const REFERENCE = "coil:next";
/** Last byte of the padding in the identification of an ELF file: nobody reads it. */
const PADDING = 15;

/** An image that does what the one of the tree does, with an executable of the same size and other content. */
export interface NextImage {
  readonly reference: string;
  /** The archive. */
  readonly path: string;
  /** SHA-256 of the executable in it, in hexadecimal digits. */
  readonly executable: string;
}

/** Makes it, unless the cache has it. */
export async function buildNextImage(): Promise<NextImage> {
  const bytes = await Deno.readFile(await buildExecutable());
  bytes[PADDING] = 1;
  const file = await Deno.makeTempFile({ prefix: "coil-next-" });
  try {
    await Deno.writeFile(file, bytes);
    const { path } = await buildImage({
      executable: file,
      reference: REFERENCE,
      compression: "none",
    });
    return { reference: REFERENCE, path, executable: digestOf(bytes) };
  } finally {
    await Deno.remove(file);
  }
}

/** SHA-256 of an installed plugin but for its socket, in hexadecimal digits. */
export async function digestOfPlugin(path: string): Promise<string> {
  using file = await Deno.open(path);
  const at = await findSocketField(file);
  const bytes = await Deno.readFile(path);
  if (at !== undefined) bytes.fill(0, at, at + SOCKET_BYTES);
  return digestOf(bytes);
}

function digestOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
