// An object of crds or deploy that is not valid YAML would fail only where it is applied.
import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { ROOT } from "./ranks.ts";

/** Those of the chart are templates. */
async function* yamlFiles(dir: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(ROOT + dir)) {
    const path = `${dir}/${name}`;
    if (isDirectory && name !== "templates") yield* yamlFiles(path);
    else if (name.endsWith(".yaml")) yield path;
  }
}

Deno.test("yaml: each file of crds and deploy can be parsed", async () => {
  const problems: string[] = [];
  let count = 0;
  for (const dir of ["crds", "deploy"]) {
    for await (const path of yamlFiles(dir)) {
      count++;
      const text = await Deno.readTextFile(ROOT + path);
      for (const { errors } of parseAllDocuments(text)) {
        problems.push(...errors.map(({ message }) => `${path}: ${message}`));
      }
    }
  }
  assert.ok(count > 50, `only ${count} files were found`);
  assert.deepEqual(problems, []);
});
