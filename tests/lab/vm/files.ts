import { createHash } from "node:crypto";
import * as path from "node:path";
import { labDir } from "../cache.ts";
import { remove } from "../files.ts";

/** Directory of everything about virtual machines that is kept; scripts and the kernel's arguments name it. */
export function vmDir(): string {
  return path.resolve(labDir(), "vm");
}

/** Directory of what runs inside before the command does. */
export const GUEST_DIR: string = path.join(
  import.meta.dirname ?? ".",
  "guest",
);

/** A short name for these contents. */
export function digest(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part).update("\0");
  return hash.digest("hex").slice(0, 16);
}

/** Notes that the file or directory is in use, for {@link removeUnused}. */
export async function touch(file: string): Promise<void> {
  await Deno.utime(file, new Date(), new Date());
}

/** Removes the directory's entries that begin so and have not been in use for a week: each change makes a new one. */
export async function removeUnused(
  dir: string,
  prefix: string,
): Promise<void> {
  const oldest = Date.now() - 7 * 86_400_000;
  for await (const { name } of Deno.readDir(dir)) {
    if (!name.startsWith(prefix)) continue;
    const file = path.join(dir, name);
    const time = (await Deno.stat(file)).mtime?.getTime() ?? Infinity;
    if (time < oldest) await remove(file);
  }
}
