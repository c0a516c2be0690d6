import { sleep } from "../../../lib/async/mod.ts";
import { codeOf } from "../../../lib/errors/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { removeLeftovers } from "./atomic_file.ts";
import { attempt, InstallError } from "../base/errors.ts";
import { exists } from "../read/directory.ts";

const log = getLogger("installer");

/** How long another installer may keep us waiting: a copy to a slow disk. */
const LOCK_WAIT_MS = 120_000;
const LOCK_POLL_MS = 100;

/** Makes a directory of the host, with its parents, if it is missing. */
export async function ensureDirectory(
  path: string,
  { dryRun }: { readonly dryRun: boolean },
): Promise<void> {
  if (await exists(path)) return;
  if (!dryRun) {
    await attempt(
      `make the directory "${path}"`,
      () => Deno.mkdir(path, { recursive: true, mode: 0o755 }),
    );
  }
  log.warn(
    dryRun
      ? "Would create a missing directory"
      : "Created a missing directory; in a container, check that the host's directory is mounted there",
    { path },
  );
}

/**
 * Keeps other installers out of directories, and removes what interrupted ones
 * left there. The kernel drops the locks when the process ends.
 *
 * @throws {InstallError} when another installer does not finish in time
 */
export async function lockDirectories(
  paths: readonly string[],
  signal: AbortSignal,
): Promise<Disposable> {
  using held = new DisposableStack();
  // In one order for all installers, and each once, even if two paths lead to it.
  const real = new Set<string>();
  for (const path of paths) real.add(await Deno.realPath(path));
  for (const path of [...real].sort()) {
    held.use(await lockDirectory(path, signal));
    for (const leftover of await removeLeftovers(path)) {
      log.info("Removed a file of an interrupted run", { path: leftover });
    }
  }
  return held.move();
}

async function lockDirectory(
  path: string,
  signal: AbortSignal,
): Promise<Disposable> {
  const directory = await attempt(`open "${path}"`, () => Deno.open(path));
  using undo = new DisposableStack();
  undo.use(directory);
  const end = performance.now() + LOCK_WAIT_MS;
  for (let waited = false; !await tryLock(directory, path); waited = true) {
    if (performance.now() >= end) {
      throw new InstallError(
        `Cannot lock "${path}": another coil-installer has held the lock for ${
          LOCK_WAIT_MS / 1000
        } s; end it, or try again`,
      );
    }
    if (!waited) log.info("Waiting for another installer", { path });
    await sleep(LOCK_POLL_MS, { signal });
  }
  undo.move();
  return directory;
}

async function tryLock(file: Deno.FsFile, path: string): Promise<boolean> {
  try {
    return await file.tryLock(true);
  } catch (error) {
    // NFS has no locks for directories. Every single step is atomic anyway.
    log.warn(
      "Continuing without a lock: the file system does not support locks",
      {
        path,
        code: codeOf(error),
        err: error,
      },
    );
    return true;
  }
}
