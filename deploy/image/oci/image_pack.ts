// From files to an archive: layers, documents, and what is kept of them.
import * as path from "node:path";
import { cacheDir, type Log, removeUnused } from "../../host/mod.ts";
import { makeArchive } from "./archive.ts";
import { type Compression, type Layer, makeLayer } from "./layer.ts";
import {
  type Architecture,
  type ContainerDefaults,
  planDocuments,
} from "./oci.ts";
import { parseReference } from "./reference.ts";
import type { TarEntry } from "../../../lib/tar/mod.ts";

/** Files of a layer: sorted, with their directories before them. */
export interface LayerContents {
  /** A few words for the image's history. */
  readonly about: string;
  readonly entries: readonly TarEntry[];
}

/** An image that is to be made. */
export interface ImageContents {
  readonly layers: readonly LayerContents[];
  readonly architecture: Architecture;
  /** `[REGISTRY/]NAME[:TAG]`. */
  readonly reference: string;
  /** Seconds since 1970: its time, and that of all its files. */
  readonly created: number;
  readonly defaults: ContainerDefaults;
}

export interface PackOptions {
  /** Default: gzip. Without it, making and importing take a fraction of the time. */
  readonly compression?: Compression;
  /** Called with what happens. */
  readonly log?: Log;
}

/** An image in a file. */
export interface Image {
  /** The archive; do not write to it. */
  readonly path: string;
  /** With registry and tag, as a container runtime keeps it. */
  readonly reference: string;
  /** Digest of the manifest, by which registries know the image. */
  readonly digest: string;
  readonly sizeBytes: number;
}

/** Archives and layers that were not used for so long are removed: two days. */
const UNUSED_MS = 2 * 86_400_000;

/**
 * Makes an archive of an image with these contents, of any kind, unless
 * the cache has it. The same contents give the same bytes.
 *
 * @throws {ImageError} when the reference is none, or the disk is full
 */
export async function packImage(
  contents: ImageContents,
  options: PackOptions = {},
): Promise<Image> {
  const { compression = "gzip", log = () => {} } = options;
  const { architecture, created, defaults } = contents;
  const reference = parseReference(contents.reference);
  const layers: Layer[] = [];
  const layerStore = await storeOf("layers");
  for (const { about, entries } of contents.layers) {
    const layer = await makeLayer(entries, {
      about,
      compression,
      mtime: created,
      store: layerStore,
    });
    log(`layer of ${about}: ${megabytes(layer.sizeBytes)}`);
    layers.push(layer);
  }
  const documents = planDocuments({
    layers,
    architecture,
    reference,
    created,
    defaults,
  });
  const archiveStore = await storeOf("archives");
  const file = await makeArchive(documents, {
    layers,
    mtime: created,
    store: archiveStore,
  });
  for (const store of [archiveStore, layerStore]) {
    await removeUnused(store, UNUSED_MS);
  }
  const { size: sizeBytes } = await Deno.stat(file);
  log(`${reference.full}: ${megabytes(sizeBytes)}`);
  const { digest } = documents.manifest;
  return { path: file, reference: reference.full, digest, sizeBytes };
}

async function storeOf(kind: string): Promise<string> {
  const store = path.join(cacheDir(), "image", kind);
  await Deno.mkdir(store, { recursive: true });
  return store;
}

function megabytes(sizeBytes: number): string {
  return `${(sizeBytes / 1e6).toFixed(1)} MB`;
}
