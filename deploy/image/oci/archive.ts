// The image as one file: an OCI layout in a tar archive.
import { createHash } from "node:crypto";
import { type Layer, writeWhole } from "./layer.ts";
import { blobPath, type Documents } from "./oci.ts";
import { type TarEntry, Tree, writeTar } from "../../../lib/tar/mod.ts";

/** Writes the archive of an image, unless the store has it, and returns its path. */
export async function makeArchive(
  documents: Documents,
  options: {
    readonly layers: readonly Layer[];
    /** Seconds since 1970: when every file was changed. */
    readonly mtime: number;
    /** Directory of archives that exist already. */
    readonly store: string;
  },
): Promise<string> {
  const { layers, mtime, store } = options;
  const entries = planArchive(documents, layers);
  const file = `${store}/${nameOf(documents)}.tar`;
  const isThere = await Deno.stat(file).catch(() => undefined);
  if (isThere === undefined) {
    await writeWhole(file, writeTar(entries, { mtime }));
  } else {
    const now = new Date();
    await Deno.utime(file, now, now);
  }
  return file;
}

/** oci-layout and index come first, so that a reader of the stream knows what it gets. */
function planArchive(
  documents: Documents,
  layers: readonly Layer[],
): readonly TarEntry[] {
  const root = new Tree();
  for (const [path, bytes] of Object.entries(documents.files)) {
    root.add({ path, mode: 0o644, kind: "file", content: { bytes } });
  }
  const blobs = new Tree();
  for (const { digest, bytes } of [documents.config, documents.manifest]) {
    const path = blobPath(digest);
    blobs.add({ path, mode: 0o644, kind: "file", content: { bytes } });
  }
  for (const { digest, file, sizeBytes } of layers) {
    const path = blobPath(digest);
    const content = { file, sizeBytes };
    blobs.add({ path, mode: 0o644, kind: "file", content });
  }
  const first = root.entries();
  return [...first.toReversed(), ...blobs.entries()];
}

/** The files at the root name all others by their digests. */
function nameOf(documents: Documents): string {
  const hash = createHash("sha256");
  for (const [path, bytes] of Object.entries(documents.files)) {
    hash.update(path).update(bytes);
  }
  return hash.digest("hex").slice(0, 24);
}
