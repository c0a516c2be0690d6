import { getLogger } from "../../../lib/telemetry/mod.ts";
import { codeOf } from "../../../lib/errors/mod.ts";
import { attempt, isBusy } from "../base/errors.ts";
import { PLUGIN } from "../base/network_list.ts";
import type { Program } from "../base/program.ts";
import {
  removeQuietly,
  replaceByLink,
  syncDirectory,
  temporaryBeside,
} from "./atomic_file.ts";
import { installProgram } from "./install_program.ts";

const log = getLogger("installer");

/**
 * Installs a program in place of a launcher, and removes the executable that the
 * launcher calls. Where the launcher may still be running a link to the program
 * takes the executable's place: the next run removes that.
 */
export async function replacePair(
  program: Program,
  { path, former, signal }: {
    readonly path: string;
    readonly former: string;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const launcher = temporaryBeside(path);
  await using undo = new AsyncDisposableStack();
  const isKept = await tryLink(path, launcher);
  if (isKept) undo.defer(() => removeQuietly(launcher));
  await installProgram(program, { path, signal });
  if (!isKept || await mayRun(launcher)) {
    await linkToPlugin(former);
    log.info(
      "Left a link in place of the executable of a former version: calls that need it may be under way",
      { path: former },
    );
    return;
  }
  await attempt(`remove "${former}"`, async () => {
    await Deno.remove(former);
    await syncDirectory(former);
  });
  log.info("Removed the executable of a former version", { path: former });
}

/** Makes a path lead to the plugin beside it. */
export async function linkToPlugin(path: string): Promise<void> {
  await attempt(
    `replace "${path}" by a link`,
    () => replaceByLink(path, { target: PLUGIN }),
  );
}

async function tryLink(path: string, other: string): Promise<boolean> {
  try {
    await Deno.link(path, other);
    return true;
  } catch (error) {
    // Not there, or a file system without hard links.
    if (codeOf(error) === undefined) throw error;
    return false;
  }
}

/** A file that is being executed, in any container, cannot be written to (ETXTBSY). */
async function mayRun(path: string): Promise<boolean> {
  try {
    using _file = await Deno.open(path, { write: true });
    return false;
  } catch (error) {
    if (!isBusy(error) && codeOf(error) === undefined) throw error;
    return true;
  }
}
