import { homedir } from "node:os";
import * as path from "node:path";

/** `$COIL_CACHE`, else `.cache/coil` in the user's home, $HOME set or not. */
export function cacheDir(): string {
  return Deno.env.get("COIL_CACHE") || path.join(homedir(), ".cache", "coil");
}

/** Takes an exclusive lock between processes; it ends with the disposal or with the process. */
export async function lockFile(
  file: string,
  options: { onWait?: () => void } = {},
): Promise<Disposable> {
  await Deno.mkdir(path.dirname(file), { recursive: true });
  const handle = await Deno.open(file, { create: true, write: true });
  try {
    if (!await handle.tryLock(true)) {
      options.onWait?.();
      await handle.lock(true);
    }
  } catch (err) {
    handle.close();
    throw err;
  }
  return handle;
}

/** Removes what is in the directory and was not touched for `unusedMs`. Several processes may do it at once. */
export async function removeUnused(
  directory: string,
  unusedMs: number,
): Promise<void> {
  const oldest = Date.now() - unusedMs;
  for await (const { name } of Deno.readDir(directory)) {
    const entry = path.join(directory, name);
    const found = await Deno.stat(entry).catch(() => undefined);
    if ((found?.mtime?.getTime() ?? Infinity) >= oldest) continue;
    await Deno.remove(entry, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
}
