import { compilerVersion } from "./elf/compiler.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** What the executable is made of, relative to the root. */
export const SOURCES: readonly string[] = [
  "main.ts",
  "lib",
  "roles",
  "deno.json",
  "deno.lock",
  "deploy/executable",
];

/**
 * A hash of everything that decides what a build gives: sources, dependencies,
 * build scripts, deno, the C compiler.
 */
export async function hashSources(): Promise<string> {
  const compiler = await compilerVersion() ?? "";
  const parts: string[] = [Deno.version.deno, Deno.build.target, compiler];
  for (const name of SOURCES) {
    for (const path of await filesOf(name)) {
      parts.push(path, await Deno.readTextFile(ROOT + path));
    }
  }
  const bytes = new TextEncoder().encode(JSON.stringify(parts));
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return new Uint8Array(digest).subarray(0, 12).toHex();
}

async function filesOf(path: string): Promise<string[]> {
  const { isFile } = await Deno.stat(ROOT + path);
  if (isFile) return [path];
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(ROOT + path)) {
    if (isDirectory) found.push(...await filesOf(`${path}/${name}`));
    else if (!name.endsWith("_test.ts")) found.push(`${path}/${name}`);
  }
  return found.sort();
}
