/**
 * Builds the one executable.
 *
 * @module
 */
import { cacheDir, removeUnused } from "../host/mod.ts";
import { bundle } from "./modules/bundle.ts";
import { compile } from "./compile/compile.ts";
import { findRuntime } from "./compile/denort.ts";
import { compileFront } from "./elf/front.ts";
import { pack } from "./packer/pack.ts";
import { hashSources } from "./sources.ts";

export interface BuildOptions {
  /** Packs even where `deno compile` would work. */
  readonly packer?: boolean;
  /** Called with what happens. */
  readonly log?: (text: string) => void;
}

/** Builds that were not used for so long are removed: two days. Each has 100 MB, one for each change of the sources. */
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
  const builds = `${cacheDir()}/build`;
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
  await removeUnused(builds, UNUSED_MS);
  return path;
}

/** A runtime that was asked for must not be passed over for a packed file. */
function usable(): readonly Kind[] {
  return Deno.env.get("DENORT_BIN") ? ["compiled"] : KINDS;
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
      const deno = Deno.execPath();
      const entry = "main.js";
      await pack({ deno, directory: modules, entry, output, front });
    }
    await Deno.mkdir(`${directory}/${kind}`, { recursive: true });
    const path = `${directory}/${kind}/coil`;
    // Another build of the same makes the same: the last one stays.
    await Deno.rename(output, path);
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
