import { ROOT } from "./ranks.ts";

/** Source files below a folder, tests left out, by their paths in the project. */
export async function* sources(dir: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${dir}`)) {
    const path = `${dir}/${name}`;
    if (isDirectory) yield* sources(path);
    else if (/(?<!_test)\.ts$/.test(name)) yield path;
  }
}
