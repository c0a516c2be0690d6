// docs/testing.md says which test holds which incident of other systems.
import assert from "node:assert/strict";
import { readPages, ROOT } from "./pages.ts";

interface Row {
  readonly incident: string;
  readonly tests: readonly { readonly file: string; readonly name: string }[];
  /** Why there are none. */
  readonly text: string;
}

async function rows(): Promise<Row[]> {
  const pages = await readPages();
  const { text = "" } = pages.find(({ path }) => path === "docs/testing.md") ??
    {};
  const [, section = ""] = text.split("## Incidents of other systems\n");
  const [table = ""] = section.split("\n## ");
  return [
    ...table.matchAll(/^\| ([a-z0-9-]+) \| (?:.*?) \| (.*?) \| (.*)\|$/gm),
  ]
    .filter(([, incident]) => incident !== "incident")
    .map(([, incident = "", text = "", tests = ""]) => ({
      incident,
      text,
      tests: [...tests.matchAll(/`([^`]+_test\.ts)`: (.*?)(?=; `| $)/g)]
        .map(([, file = "", name = ""]) => ({ file, name })),
    }));
}

Deno.test("the test of each incident exists, or it says why there is none", async () => {
  const all = await rows();
  assert.equal(all.length, 30);
  for (const { incident, tests, text } of all) {
    if (tests.length === 0) assert.match(text, /^does not apply: /, incident);
    for (const { file, name } of tests) {
      const source = await Deno.readTextFile(ROOT + file);
      assert.ok(source.includes(name), `${incident}: ${file}: ${name}`);
    }
  }
});
