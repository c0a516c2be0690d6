import { lutimes } from "node:fs/promises";
import { explainWriteError, ImageError } from "./base/errors.ts";
import type { TarEntry } from "../../lib/tar/mod.ts";

/**
 * Writes the image's files into an empty or new directory, as the Dockerfile
 * needs them. Their owner is the user that runs this.
 *
 * @throws {ImageError} when something is in the directory
 */
export async function writeRootfs(
  directory: string,
  options: { readonly entries: readonly TarEntry[]; readonly mtime: number },
): Promise<void> {
  await Deno.mkdir(directory, { recursive: true });
  for await (const { name } of Deno.readDir(directory)) {
    throw new ImageError(
      `Cannot write the image's files into "${directory}": "${name}" is in there already`,
    );
  }
  try {
    for (const entry of options.entries) await write(directory, entry);
    // Files in a directory change its time: from the leaves to the root.
    const { mtime } = options;
    for (const { path } of options.entries.toReversed()) {
      await lutimes(`${directory}/${path}`, mtime, mtime);
    }
  } catch (error) {
    explainWriteError(error, directory);
  }
}

async function write(directory: string, entry: TarEntry): Promise<void> {
  const path = `${directory}/${entry.path}`;
  switch (entry.kind) {
    case "directory":
      await Deno.mkdir(path);
      break;
    case "symlink":
      return await Deno.symlink(entry.target, path);
    case "hardlink":
      return await Deno.link(`${directory}/${entry.target}`, path);
    case "file":
      if ("bytes" in entry.content) {
        await Deno.writeFile(path, entry.content.bytes);
      } else {
        await Deno.copyFile(entry.content.file, path);
      }
  }
  await Deno.chmod(path, entry.mode); // regardless of the umask
}
