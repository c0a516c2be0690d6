import * as path from "node:path";
import { writeAll } from "../../../lib/async/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import { inspectManifest, type ManifestState } from "./manifest.ts";

/** A manifest that is there already. */
export interface PresentManifest {
  readonly text: string;
  readonly state: ManifestState;
}

/** Reads a manifest; undefined when there is no such file. */
export async function readManifest(
  file: string,
): Promise<PresentManifest | undefined> {
  try {
    const text = await Deno.readTextFile(file);
    return { text, state: inspectManifest(text) };
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return undefined;
    throw fileError("read", file, cause);
  }
}

/**
 * Writes a manifest so that the file is either as before or whole, also when the machine stops in the middle: into
 * another file, to the disk, and then in its place.
 *
 * @throws {CommandError} when that fails; nothing was changed then
 */
export async function writeManifest(
  file: string,
  text: string,
): Promise<void> {
  const part = `${file}.part`;
  try {
    // What an earlier run left, or a link that another user put there: it is not followed.
    await Deno.remove(part).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    await writeNewFile(part, text);
    await Deno.rename(part, file);
    using directory = await Deno.open(path.dirname(path.resolve(file)));
    await directory.sync();
  } catch (cause) {
    throw fileError("write", file, cause);
  }
}

/** Writes a new file. Fails when it is there: in /tmp any user may put one, or a link to a file of root's (O_EXCL follows none). */
export async function writeNewFile(file: string, text: string): Promise<void> {
  using target = await Deno.open(file, { write: true, createNew: true });
  await writeAll(target, new TextEncoder().encode(text));
  await target.sync();
}

function fileError(verb: string, file: string, cause: unknown): CommandError {
  return new CommandError(
    `Cannot ${verb} manifest "${file}": ${messageOf(cause)}`,
    { cause },
  );
}
