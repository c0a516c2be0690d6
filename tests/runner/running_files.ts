import * as path from "node:path";
import { fileURLToPath } from "node:url";

/** Where files of tests leave a mark while they run. */
export const RUNNING_FILES_ENV = "COIL_RUNNING_FILES";

/** Paths of the files whose marks are in the directory, from where this process runs. */
export async function runningFiles(directory: string): Promise<string[]> {
  const files: string[] = [];
  for await (const { name } of Deno.readDir(directory)) {
    const module = await Deno.readTextFile(path.join(directory, name));
    files.push(path.relative(Deno.cwd(), fileURLToPath(module)));
  }
  return files.sort();
}
