// A program that does nothing, made as the executable is made: what any
// program of this runtime costs at least.
import * as path from "node:path";
import { compile } from "../../deploy/executable/compile/compile.ts";
import { findRuntime } from "../../deploy/executable/compile/denort.ts";
import { pack } from "../../deploy/executable/packer/pack.ts";

/** Makes the program below `dir` and returns its path. */
export async function makeEmptyProgram(dir: string): Promise<string> {
  const directory = path.join(dir, "empty-modules");
  const output = path.join(dir, "empty");
  await Deno.mkdir(directory);
  await Deno.writeTextFile(path.join(directory, "main.js"), "export {};\n");
  if (await findRuntime() !== undefined) {
    await compile(path.join(directory, "main.js"), { output });
  } else {
    const deno = Deno.execPath();
    await pack({ deno, directory, entry: "main.js", output });
  }
  return output;
}
