// Debian packages of the image's first layer: which, and where they come from.
import { createHash } from "node:crypto";
import * as path from "node:path";
import { messageOf } from "../../../lib/errors/mod.ts";
import {
  cacheDir,
  lockFile,
  type Log,
  PackageFetcher,
} from "../../host/mod.ts";
import { ImageError } from "../base/errors.ts";
import { readTar, type TarEntry } from "../../../lib/tar/mod.ts";

/**
 * What the image needs: the libraries of the executable, modprobe for the
 * tunnels' modules, certificate authorities, the release's name for scanners.
 * A node's modules may be compressed with xz or zstd; newer releases of kmod
 * only recommend what reads them.
 */
const WANTED: readonly string[] = [
  "base-files",
  "ca-certificates",
  "kmod",
  "libc6",
  "libgcc-s1",
  "liblzma5",
  "libzstd1",
];

/** What only the packages' installation scripts need, which are not run. */
const ASSUMED: readonly string[] = ["awk", "debconf", "openssl"];

/** A package as it was downloaded. */
export interface Package {
  readonly name: string;
  /** The paragraph that dpkg would keep about it. */
  readonly control: string;
  readonly entries: readonly TarEntry[];
}

export interface FetchOptions {
  readonly log: Log;
  /** Asks the mirror again instead of taking what is in the cache. */
  readonly refresh?: boolean;
}

/** Fetches the packages, unless the cache has them, and unpacks them into memory. Needs no root; installs nothing. */
export async function fetchPackages(
  options: FetchOptions,
): Promise<readonly Package[]> {
  const directory = await ensureDownloaded(options);
  const files: string[] = [];
  for await (const { name } of Deno.readDir(directory)) {
    if (name.endsWith(".deb")) files.push(path.join(directory, name));
  }
  return await Promise.all(files.sort().map(unpack));
}

/** Directory with exactly the packages of the image. */
async function ensureDownloaded(options: FetchOptions): Promise<string> {
  const { log, refresh = false } = options;
  const parent = path.join(cacheDir(), "image");
  const directory = path.join(parent, `packages-${await recipe()}`);
  await Deno.mkdir(parent, { recursive: true });
  using _lock = await lockFile(`${directory}.lock`, {
    onWait: () => log("waiting for another run that fetches packages"),
  });
  const there = await Deno.stat(directory).catch(() => undefined);
  if (there !== undefined && !refresh) {
    const day = there.mtime?.toISOString().slice(0, 10);
    log(`Debian packages of ${day}, from the cache (--refresh asks again)`);
    return directory;
  }
  const temporary = await Deno.makeTempDir({ dir: parent, prefix: ".new-" });
  try {
    await download(temporary, log);
    await Deno.remove(directory, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    await Deno.rename(path.join(temporary, "debs"), directory);
  } finally {
    await Deno.remove(temporary, { recursive: true });
  }
  return directory;
}

/** Another release, processor or list of packages is another directory. */
async function recipe(): Promise<string> {
  const release = await Deno.readTextFile("/etc/os-release").catch(() => "");
  const text = JSON.stringify([release, Deno.build.arch, WANTED, ASSUMED]);
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

async function download(directory: string, log: Log): Promise<void> {
  try {
    const apt = await PackageFetcher.open(directory, { log });
    const names = await apt.closure(WANTED, { assumed: ASSUMED });
    await apt.download(names);
    await Deno.remove(path.join(directory, "debs", "partial"), {
      recursive: true,
    });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      throw new ImageError(
        'Cannot fetch the Debian packages of the image: there is no "apt-get"; make it on Debian, or from the Dockerfile',
        { cause: error },
      );
    }
    const why = messageOf(error);
    throw new ImageError(
      `Cannot fetch the Debian packages of the image: ${why.trim()}\nIt takes Debian, and a mirror that can be reached: see what "apt-get update" says`,
      { cause: error },
    );
  }
}

async function unpack(file: string): Promise<Package> {
  const control = new TextDecoder().decode(await dpkgDeb(["--field", file]));
  const entries = readTar(await dpkgDeb(["--fsys-tarfile", file]));
  const name = /^Package: (\S+)$/m.exec(control)?.[1];
  if (name !== undefined) return { name, control, entries };
  throw new ImageError(`Cannot unpack "${file}": it does not say its name`);
}

async function dpkgDeb(
  args: readonly string[],
): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const { success, stdout, stderr } = await new Deno.Command("dpkg-deb", {
      args: [...args],
    }).output();
    if (success) return stdout;
    throw new ImageError(
      `Cannot unpack "${args.at(-1)}": dpkg-deb says ${
        new TextDecoder().decode(stderr).trim()
      }; --refresh downloads it again`,
    );
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new ImageError(
      'Cannot unpack Debian packages: there is no "dpkg-deb"; make the image on Debian, or from the Dockerfile',
      { cause: error },
    );
  }
}
