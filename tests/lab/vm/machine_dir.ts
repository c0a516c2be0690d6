import * as path from "node:path";
import { lockFile } from "../cache.ts";
import { remove } from "../files.ts";

/** Of a machine whose process holds its lock, or has been killed. */
const PREFIX = "coil-vm-";
/** Of one whose process has not taken the lock yet. */
const NEW_PREFIX = "coil-vm.";
/** Taking the lock takes no time; who has not by then never will. */
const NEW_MS = 3_600_000;

/** The directory of one machine, removed when disposed and when the process ends, unless that is killed. */
export interface MachineDir extends AsyncDisposable {
  readonly path: string;
}

/**
 * Makes the directory of a machine, and removes those of machines whose process was killed.
 *
 * Several processes may do it at once.
 */
export async function machineDir(
  options: { readonly parent?: string } = {},
): Promise<MachineDir> {
  const { parent: dir } = options;
  const fresh = await Deno.makeTempDir({
    prefix: NEW_PREFIX,
    ...(dir !== undefined && { dir }),
  });
  const lock = await lockFile(path.join(fresh, "lock"));
  const parent = path.dirname(fresh);
  const made = path.join(
    parent,
    `${PREFIX}${path.basename(fresh).slice(NEW_PREFIX.length)}`,
  );
  await Deno.rename(fresh, made);
  const onExit = () => Deno.removeSync(made, { recursive: true });
  globalThis.addEventListener("unload", onExit);
  await sweep(parent);
  return {
    path: made,
    async [Symbol.asyncDispose](): Promise<void> {
      globalThis.removeEventListener("unload", onExit);
      await remove(made);
      lock[Symbol.dispose]();
    },
  };
}

async function sweep(parent: string): Promise<void> {
  for await (const { name } of Deno.readDir(parent)) {
    const dir = path.join(parent, name);
    if (name.startsWith(PREFIX)) await removeUnlocked(dir);
    else if (name.startsWith(NEW_PREFIX)) await removeOld(dir);
  }
}

/** Makes nothing in the directory: its owner may just be removing it. */
async function removeUnlocked(dir: string): Promise<void> {
  using lock = await openIfThere(path.join(dir, "lock"));
  if (lock === undefined || !await lock.tryLock(true)) return;
  await remove(dir);
}

async function openIfThere(file: string): Promise<Deno.FsFile | undefined> {
  try {
    return await Deno.open(file, { write: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function removeOld(dir: string): Promise<void> {
  const stat = await Deno.stat(dir).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  });
  const age = Date.now() - (stat?.mtime?.getTime() ?? Infinity);
  if (age > NEW_MS) await remove(dir);
}
