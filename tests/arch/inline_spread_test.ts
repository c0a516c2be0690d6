// `{ ...{ a, b } }` turns off the type checker's look for properties that the
// target does not have; `{ a, b }` does not.
import assert from "node:assert/strict";
import { ROOT } from "./ranks.ts";

const INLINE_SPREAD = /\.\.\.\(?\{/;

async function* sources(dir: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${dir}`)) {
    const path = `${dir}/${name}`;
    if (isDirectory) yield* sources(path);
    else if (/\.tsx?$/.test(name)) yield path;
  }
}

Deno.test("sources of the browser's page are read, too", async () => {
  const paths = await Array.fromAsync(sources("roles/cli/page"));
  assert.ok(paths.some((path) => path.endsWith(".tsx")));
});

Deno.test("no object literal spreads another object literal", async () => {
  const found: string[] = [];
  for (const dir of ["lib", "roles", "deploy", "docs", "tests"]) {
    for await (const path of sources(dir)) {
      if (path.endsWith("inline_spread_test.ts")) continue;
      const lines = (await Deno.readTextFile(`${ROOT}${path}`)).split("\n");
      lines.forEach((line, i) => {
        if (INLINE_SPREAD.test(line)) found.push(`${path}:${i + 1}: ${line}`);
      });
    }
  }
  assert.deepEqual(found, []);
});
