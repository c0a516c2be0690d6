import { codeOf } from "../../../lib/errors/mod.ts";
import { attempt, ifThere, InstallError } from "../base/errors.ts";
import type { ConfigFile } from "./situation.ts";

/** Whether the directory is there. @throws {InstallError} when something else is */
export async function exists(path: string): Promise<boolean> {
  const info = await attempt(
    `look at "${path}"`,
    () => ifThere(Deno.stat(path)),
  );
  if (info === undefined || info.isDirectory) return info !== undefined;
  throw new InstallError(
    `Cannot use "${path}": it is not a directory; give another one`,
  );
}

/** The files of the directory of network configurations; none when it is not there. */
export async function readConfigs(
  directory: string,
): Promise<readonly ConfigFile[]> {
  return await attempt(`read the directory "${directory}"`, async () => {
    if (!await exists(directory)) return [];
    const files: ConfigFile[] = [];
    for await (const entry of Deno.readDir(directory)) {
      if (entry.isDirectory) continue;
      const file = await readConfig(`${directory}/${entry.name}`, entry);
      if (file !== undefined) files.push(file);
    }
    return files;
  });
}

/** Undefined for what holds nothing: gone by then, a dangling link, a device. */
async function readConfig(
  path: string,
  { name, isSymlink }: Deno.DirEntry,
): Promise<ConfigFile | undefined> {
  try {
    const { isFile, mode } = await Deno.stat(path);
    if (!isFile) return undefined;
    const text = await Deno.readTextFile(path);
    return { name, text, mode: (mode ?? 0) & 0o7777, isLink: isSymlink };
  } catch (error) {
    const isGone = error instanceof Deno.errors.NotFound ||
      codeOf(error) === "ELOOP";
    if (isGone) return undefined;
    throw error;
  }
}
