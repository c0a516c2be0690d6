import { createHash } from "node:crypto";
import { explainWriteError } from "../base/errors.ts";
import { type TarEntry, writeTar } from "../../../lib/tar/mod.ts";

/** How layers are stored. */
export type Compression = "gzip" | "none";

/** A layer of an image, in a file that must not be written to. */
export interface Layer {
  readonly about: string;
  readonly file: string;
  readonly compression: Compression;
  /** Digest of the file. */
  readonly digest: string;
  readonly sizeBytes: number;
  /** Digest of the archive without its compression. */
  readonly diffId: string;
}

export interface LayerOptions {
  /** A few words for the image's history. */
  readonly about: string;
  /** Seconds since 1970: when every file was changed. */
  readonly mtime: number;
  readonly compression: Compression;
  /** Directory of layers that exist already, by what is in them. */
  readonly store: string;
}

interface Measured {
  readonly digest: string;
  readonly sizeBytes: number;
}

/** Makes a layer of these entries, unless the store has it. */
export async function makeLayer(
  entries: readonly TarEntry[],
  options: LayerOptions,
): Promise<Layer> {
  const { about, mtime, compression, store } = options;
  const { digest: diffId } = await measure(writeTar(entries, { mtime }));
  const file = `${store}/${diffId.replace("sha256:", "")}.${compression}`;
  const isThere = await Deno.stat(file).catch(() => undefined);
  if (isThere === undefined) {
    await writeLayer(file, { entries, mtime, compression });
  } else {
    const now = new Date();
    await Deno.utime(file, now, now);
  }
  using handle = await Deno.open(file);
  const measured = await measure(handle.readable);
  return { about, file, compression, diffId, ...measured };
}

async function measure(
  chunks: AsyncIterable<Uint8Array<ArrayBuffer>>,
): Promise<Measured> {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  return { digest: `sha256:${hash.digest("hex")}`, sizeBytes };
}

/** Under another name first: another run makes the same bytes. */
async function writeLayer(
  file: string,
  { entries, mtime, compression }: {
    readonly entries: readonly TarEntry[];
    readonly mtime: number;
    readonly compression: Compression;
  },
): Promise<void> {
  const tar = ReadableStream.from(writeTar(entries, { mtime }));
  const bytes = compression === "none"
    ? tar
    : tar.pipeThrough(new CompressionStream("gzip"));
  await writeWhole(file, bytes);
}

/** Writes a file that appears only when it is complete. */
export async function writeWhole(
  file: string,
  bytes:
    | ReadableStream<Uint8Array<ArrayBuffer>>
    | AsyncIterable<Uint8Array<ArrayBuffer>>,
): Promise<void> {
  const temporary = `${file}.${crypto.randomUUID()}.tmp`;
  try {
    await Deno.writeFile(temporary, ReadableStream.from(bytes));
    await Deno.rename(temporary, file);
  } catch (error) {
    await Deno.remove(temporary).catch((failure) => {
      if (!(failure instanceof Deno.errors.NotFound)) throw failure;
    });
    explainWriteError(error, file);
  }
}
