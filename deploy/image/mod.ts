/**
 * Makes the container image, without a container engine.
 *
 * @module
 */
import * as path from "node:path";
import { VERSION } from "../../lib/names/mod.ts";
import { buildExecutable } from "../executable/mod.ts";
import { cacheDir, type Log, removeUnused } from "../host/mod.ts";
import { makeArchive } from "./archive.ts";
import { planBaseLayer, USER } from "./base_layer.ts";
import { type Compression, type Layer, makeLayer } from "./layer.ts";
import { ImageError } from "./errors.ts";
import { requireArchitecture } from "./machine.ts";
import { type ContainerDefaults, planDocuments } from "./oci.ts";
import { fetchPackages } from "./packages.ts";
import { planProgramLayer } from "./program_layer.ts";
import { parseReference } from "./reference.ts";
import { PROGRAM_DIR } from "./roles.ts";
import { writeRootfs } from "./rootfs.ts";
import { listNpmPackages, planSbom } from "./sbom.ts";
import type { Tree } from "./tree.ts";

export { ImageError } from "./errors.ts";
export { PROGRAM_DIR, ROLE_LINKS } from "./roles.ts";
export type { Compression } from "./layer.ts";

/** Options of {@linkcode buildImage} and {@linkcode buildRootfs}. */
export interface FilesOptions {
  /** What to put into it (default: what `task build` makes). */
  readonly executable?: string;
  /** Asks Debian's mirror for newer packages. */
  readonly refresh?: boolean;
  /** Is told what happens. */
  readonly log?: Log;
}

/** Options of {@linkcode buildImage}. */
export interface ImageOptions extends FilesOptions {
  /** `[REGISTRY/]NAME[:TAG]` (default: `coil:<version>`). */
  readonly reference?: string;
  /** Default: gzip. Without it, making and importing take a fraction of the time. */
  readonly compression?: Compression;
  /** Labels beside the usual ones, or in their place. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** An image in a file. */
export interface Image {
  /** The archive; nobody may write to it. */
  readonly path: string;
  /** With registry and tag, as a container runtime keeps it. */
  readonly reference: string;
  /** Digest of the manifest, by which registries know the image. */
  readonly digest: string;
  readonly sizeBytes: number;
}

/** The image's name when nobody gives another. */
export const DEFAULT_REFERENCE: string = `coil:${VERSION}`;

/** What a container of the image gets that says nothing itself; the Dockerfile says the same. */
export const DEFAULTS: ContainerDefaults = {
  user: `${USER}:${USER}`,
  env: [`PATH=/${PROGRAM_DIR}:/usr/sbin:/usr/bin:/sbin:/bin`],
  command: ["coil", "--help"],
  labels: {
    "org.opencontainers.image.title": "Coil",
    "org.opencontainers.image.description":
      "Kubernetes network plugin: address pools, pod network, egress gateways",
    "org.opencontainers.image.licenses": "MIT",
    "org.opencontainers.image.version": VERSION,
  },
};

/** Archives and layers that nobody wanted for so long are removed: two days. */
const UNUSED_MS = 2 * 86_400_000;

/**
 * Makes the image as an archive that `ctr images import`, `docker load`,
 * `podman load` and `skopeo copy oci-archive:` read. The same executable and
 * packages give the same bytes; what the cache has is not made again.
 *
 * @throws {ImageError} when something is missing that it needs
 */
export async function buildImage(options: ImageOptions = {}): Promise<Image> {
  const { compression = "gzip", log = () => {} } = options;
  const reference = parseReference(options.reference ?? DEFAULT_REFERENCE);
  const created = sourceDateEpoch();
  const store = path.join(cacheDir(), "image");
  const { base, program, architecture } = await planFiles(options);
  const layerOf = async (tree: Tree, about: string): Promise<Layer> => {
    const directory = path.join(store, "layers");
    await Deno.mkdir(directory, { recursive: true });
    const layer = await makeLayer(tree.entries(), {
      about,
      compression,
      mtime: created,
      store: directory,
    });
    log(`layer of ${about}: ${megabytes(layer.sizeBytes)}`);
    return layer;
  };
  const layers = [
    await layerOf(base, "Debian packages"),
    await layerOf(program, `coil ${VERSION}`),
  ];
  const labels = { ...DEFAULTS.labels, ...options.labels };
  const documents = planDocuments({
    layers,
    architecture,
    reference,
    created,
    defaults: { ...DEFAULTS, labels },
  });
  const archives = path.join(store, "archives");
  await Deno.mkdir(archives, { recursive: true });
  const file = await makeArchive(documents, {
    layers,
    mtime: created,
    store: archives,
  });
  await removeUnused(archives, UNUSED_MS);
  await removeUnused(path.join(store, "layers"), UNUSED_MS);
  const { size: sizeBytes } = await Deno.stat(file);
  log(`${reference.full}: ${megabytes(sizeBytes)}`);
  const { digest } = documents.manifest;
  return { path: file, reference: reference.full, digest, sizeBytes };
}

/**
 * Writes the image's files into a directory, for the Dockerfile.
 *
 * @throws {ImageError} when something is missing that it needs, or in the way
 */
export async function buildRootfs(
  directory: string,
  options: FilesOptions = {},
): Promise<void> {
  const { base, program } = await planFiles(options);
  for (const entry of program.entries()) base.add(entry);
  await writeRootfs(directory, {
    entries: base.entries(),
    mtime: sourceDateEpoch(),
  });
}

async function planFiles(options: FilesOptions) {
  const { log = () => {}, refresh = false } = options;
  const executable = options.executable ?? await buildExecutable({ log });
  const architecture = await requireArchitecture(executable);
  const packages = await fetchPackages({ log, refresh });
  const sbom = planSbom({
    debian: packages,
    npm: await listNpmPackages(),
    deno: Deno.version.deno,
    created: sourceDateEpoch(),
  });
  return {
    architecture,
    base: planBaseLayer(packages),
    program: await planProgramLayer(executable, { sbom }),
  };
}

/** https://reproducible-builds.org/specs/source-date-epoch/; without it, 1970. */
function sourceDateEpoch(): number {
  const text = Deno.env.get("SOURCE_DATE_EPOCH") || "0";
  // Until 9999-12-31: a date in JSON has four digits of a year.
  if (/^\d{1,12}$/.test(text) && Number(text) < 253402300800) {
    return Number(text);
  }
  throw new ImageError(
    `Cannot use SOURCE_DATE_EPOCH "${text}": it is the number of seconds since 1970`,
  );
}

function megabytes(sizeBytes: number): string {
  return `${(sizeBytes / 1e6).toFixed(1)} MB`;
}
