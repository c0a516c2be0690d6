/**
 * Builds the one executable.
 *
 * @module
 */
import { homedir } from "node:os";
import { bundle } from "./modules/bundle.ts";
import { compile } from "./compile/compile.ts";
import { findRuntime } from "./compile/denort.ts";
import type { FlatImage } from "./elf/flat.ts";
import { compileFront } from "./elf/front.ts";
import { pack } from "./packer/pack.ts";
import { hashSources } from "./sources.ts";

export interface BuildOptions {
  /** Packs even where `deno compile` would work. */
  readonly packer?: boolean;
  /** Called with what happens. */
  readonly log?: (text: string) => void;
}

/** Builds that were not used for so long are removed: two days. */
const UNUSED_MS = 2 * 86_400_000;

const KINDS = ["compiled", "packed"] as const;
type Kind = typeof KINDS[number];

/**
 * Builds the executable, unless the cache has it, and returns its path. Do not
 * write to that file.
 *
 * Made by `deno compile` where its runtime can be had, else by our packer.
 */
export async function buildExecutable(
  options: BuildOptions = {},
): Promise<string> {
  const { packer = false, log = () => {} } = options;
  const builds = `${cacheRoot()}/build`;
  const directory = `${builds}/${await hashSources()}`;
  const wanted: readonly Kind[] = packer ? ["packed"] : usable();
  for (const kind of wanted) {
    const path = `${directory}/${kind}/coil`;
    if (!await Deno.stat(path).catch(() => undefined)) continue;
    const now = new Date();
    await Deno.utime(directory, now, now);
    log(`${path} (${kind}, from the cache)`);
    return path;
  }
  const path = await build(directory, { packer, log });
  await removeUnused(builds);
  return path;
}

/** 100 MB each, one for each change of the sources. */
async function removeUnused(builds: string): Promise<void> {
  const oldest = Date.now() - UNUSED_MS;
  for await (const { name } of Deno.readDir(builds)) {
    const path = `${builds}/${name}`;
    // Two processes may remove the same.
    const used = await Deno.stat(path).catch(() => undefined);
    if ((used?.mtime?.getTime() ?? Infinity) >= oldest) continue;
    await Deno.remove(path, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
}

/** A runtime that was asked for must not be passed over for a packed file. */
function usable(): readonly Kind[] {
  return Deno.env.get("DENORT_BIN") ? ["compiled"] : KINDS;
}

/** In the user's home, also when $HOME is not set. */
function cacheRoot(): string {
  return Deno.env.get("COIL_CACHE") || `${homedir()}/.cache/coil`;
}

async function build(
  directory: string,
  options: Required<BuildOptions>,
): Promise<string> {
  const { packer, log } = options;
  const started = performance.now();
  await Deno.mkdir(directory, { recursive: true });
  const temporary = await Deno.makeTempDir({ dir: directory, prefix: ".new-" });
  try {
    const modules = `${temporary}/modules`;
    const front = await compileFront();
    if (front === undefined) log(NO_FRONT);
    await bundle(modules);
    const runtime = packer ? undefined : await findRuntime();
    const output = `${temporary}/coil`;
    let kind: Kind = "compiled";
    if (runtime !== undefined) {
      log(`deno compile, with ${runtime}`);
      await compile(`${modules}/main.js`, { output, front });
    } else {
      kind = "packed";
      if (!packer) log(NOTICE);
      await packModules(modules, { output, front });
    }
    await Deno.mkdir(`${directory}/${kind}`, { recursive: true });
    // Another build of the same makes the same: the last one stays.
    await Deno.rename(output, `${directory}/${kind}/coil`);
    const path = `${directory}/${kind}/coil`;
    const { size } = await Deno.stat(path);
    const seconds = (performance.now() - started) / 1000;
    log(
      `${path} (${kind}, ${(size / 1e6).toFixed(1)} MB, ${
        seconds.toFixed(1)
      } s)`,
    );
    return path;
  } finally {
    await Deno.remove(temporary, { recursive: true });
  }
}

const NOTICE =
  "notice: denort, the runtime of `deno compile`, cannot be downloaded and " +
  "DENORT_BIN is not set: packing with the deno command line program instead";

const NO_FRONT =
  "notice: there is no C compiler ($CC, gcc, clang), so a JavaScript runtime " +
  "starts for each call of the CNI plugin, which takes 16 ms more per call";

async function packModules(
  directory: string,
  options: {
    readonly output: string;
    readonly front: FlatImage | undefined;
  },
): Promise<void> {
  const deno = Deno.execPath();
  await pack({ deno, directory, entry: "main.js", ...options });
}
