// Programs that tests write and run at once.
import * as path from "node:path";
import { run } from "./command.ts";

/**
 * Has another process put a program where it is run: `write` makes it at the path that it gets.
 *
 * Files of a suite are threads of one process. A program that one of them starts holds all files that another one has
 * open, until it runs itself, and the kernel refuses to run a file that is open for writing ("Text file busy"). What
 * `install` writes only `install` has open.
 */
export async function placeProgram(
  file: string,
  write: (made: string) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    const made = path.join(directory, "program");
    await write(made);
    await run("install", ["-m", "755", made, file]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
