/**
 * Makes the container image, without a container engine.
 *
 * @module
 */
import { VERSION } from "../../lib/names/mod.ts";
import { buildExecutable } from "../executable/mod.ts";
import type { Log } from "../host/mod.ts";
import { planBaseLayer, USER } from "./contents/base_layer.ts";
import { ImageError } from "./base/errors.ts";
import { type Image, packImage, type PackOptions } from "./oci/image_pack.ts";
import { requireArchitecture } from "./oci/machine.ts";
import type { ContainerDefaults } from "./oci/oci.ts";
import { fetchPackages } from "./contents/packages.ts";
import { planProgramLayer } from "./contents/program_layer.ts";
import { parseReference } from "./oci/reference.ts";
import { PROGRAM_DIR } from "./contents/roles.ts";
import { writeRootfs } from "./rootfs.ts";
import { listNpmPackages, planSbom } from "./contents/sbom.ts";

export { ImageError } from "./base/errors.ts";
export { type Image, packImage } from "./oci/image_pack.ts";
export type { Compression } from "./oci/layer.ts";
export { requireArchitecture } from "./oci/machine.ts";

export { PROGRAM_DIR, ROLE_LINKS } from "./contents/roles.ts";

export interface FilesOptions {
  /** What to put into it (default: what `task build` makes). */
  readonly executable?: string;
  /** Asks Debian's mirror for newer packages. */
  readonly refresh?: boolean;
  /** Called with what happens. */
  readonly log?: Log;
}

export interface ImageOptions extends FilesOptions, PackOptions {
  /** `[REGISTRY/]NAME[:TAG]` (default: `coil:<version>`). */
  readonly reference?: string;
  /** Labels beside the usual ones, or in their place. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** The image's default name. */
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

/**
 * Makes the image as an archive that `ctr images import`, `docker load`,
 * `podman load` and `skopeo copy oci-archive:` read. The same executable and
 * packages give the same bytes; what the cache has is not made again.
 *
 * @throws {ImageError} when something is missing that it needs
 */
export async function buildImage(options: ImageOptions = {}): Promise<Image> {
  const reference = options.reference ?? DEFAULT_REFERENCE;
  parseReference(reference); // a mistake is reported before the work
  const { base, program, architecture } = await planFiles(options);
  return await packImage({
    layers: [
      { about: "Debian packages", entries: base.entries() },
      { about: `coil ${VERSION}`, entries: program.entries() },
    ],
    architecture,
    reference,
    created: sourceDateEpoch(),
    defaults: {
      ...DEFAULTS,
      labels: { ...DEFAULTS.labels, ...options.labels },
    },
  }, options);
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
