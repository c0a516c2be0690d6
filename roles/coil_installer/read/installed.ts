import { createHash } from "node:crypto";
import { attempt, ifThere, InstallError } from "../base/errors.ts";
import { machineOf } from "../base/machine.ts";
import { PLUGIN } from "../base/network_list.ts";
import { chunksOf, type Program, readStart } from "../base/program.ts";

/** How an installed program compares with the one to install. */
export type InstalledState =
  | { readonly kind: "absent" }
  | { readonly kind: "same"; readonly mode: number }
  | { readonly kind: "different"; readonly found: string };

/** Looks at what is installed. Symbolic links count as different: they are not followed. */
export async function compareInstalled(
  path: string,
  program: Program,
): Promise<InstalledState> {
  const info = await attempt(
    `look at "${path}"`,
    () => ifThere(Deno.lstat(path)),
  );
  if (info === undefined) return { kind: "absent" };
  if (info.isDirectory) {
    throw new InstallError(
      `Cannot install "${path}": a directory is in its place; remove it`,
    );
  }
  if (!info.isFile) {
    return {
      kind: "different",
      found: info.isSymlink ? "symbolic link" : "special file",
    };
  }
  return await attempt(`read "${path}"`, async () => {
    using file = await Deno.open(path);
    const machine = machineOf(await readStart(file)) ?? "no Linux executable";
    const found = `${machine}, ${info.size} bytes`;
    if (info.size !== program.sizeBytes) return { kind: "different", found };
    return await digestOf(chunksOf(path)) === await digestOf(program.chunks())
      ? { kind: "same", mode: (info.mode ?? 0) & 0o7777 }
      : { kind: "different", found };
  });
}

async function digestOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest("hex");
}

/**
 * Whether something is installed.
 *
 * @throws {InstallError} when it cannot be removed
 */
export async function isInstalled(path: string): Promise<boolean> {
  return await attempt(`look at "${path}"`, async () => {
    const info = await ifThere(Deno.lstat(path));
    if (info?.isDirectory) {
      throw new InstallError(
        `Cannot remove "${path}": it is a directory, not the executable`,
      );
    }
    return info !== undefined;
  });
}

/** State of the second file that the plugin had in former versions. */
export type FormerExecutable =
  | "absent"
  | "executable"
  /** Leads to the plugin: an earlier run left it for calls that were under way. */
  | "link"
  /** Not the installer's. */
  | "foreign";

/** State of a link to the plugin. */
export type PluginLink = "absent" | "ours" | "foreign";

/** Looks at the place of a link to the plugin. */
export async function examineLink(path: string): Promise<PluginLink> {
  return await attempt(`look at "${path}"`, async () => {
    const info = await ifThere(Deno.lstat(path));
    if (info === undefined) return "absent";
    const isOurs = info.isSymlink && await Deno.readLink(path) === PLUGIN;
    return isOurs ? "ours" : "foreign";
  });
}

/** Looks at the second file of former versions. */
export async function examineFormer(path: string): Promise<FormerExecutable> {
  return await attempt(`look at "${path}"`, async () => {
    const info = await ifThere(Deno.lstat(path));
    if (info === undefined) return "absent";
    if (info.isSymlink && await Deno.readLink(path) === PLUGIN) return "link";
    if (!info.isFile) return "foreign";
    using file = await Deno.open(path);
    const isElf = machineOf(await readStart(file)) !== undefined;
    return isElf ? "executable" : "foreign";
  });
}
