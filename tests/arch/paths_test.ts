// Documents and comments name files. Files move: each name must lead to one.
import assert from "node:assert/strict";
import { readPages, ROOT } from "./pages.ts";
import { sources } from "./sources.ts";

/** `lib/kube/mod.ts` and the like, from the repository's root on; not the target of a link. */
const PATH =
  /(?<![(\w./@-])(?:crds|deploy|docs|lib|proto|roles|tests)\/[\w./-]*\w\.(?:c|go|h|md|proto|svg|ts|txt)\b(?!\/)/g;

/** The files that a text names and that are not there. */
async function missing(text: string): Promise<string[]> {
  const named = new Set(text.match(PATH) ?? []);
  const found = await Promise.all([...named].map(async (path) => {
    const isThere = await Deno.stat(ROOT + path).then(() => true, () => false);
    return isThere ? [] : [path];
  }));
  return found.flat();
}

async function* texts(): AsyncGenerator<readonly [string, string]> {
  for (const { path, text } of await readPages()) yield [path, text];
  for (const dir of ["deploy", "lib", "roles", "tests"]) {
    for await (const path of sources(dir)) {
      yield [path, await Deno.readTextFile(ROOT + path)];
    }
  }
}

Deno.test("paths: documents and sources name files that exist", async () => {
  const wrong: string[] = [];
  for await (const [path, text] of texts()) {
    for (const name of await missing(text)) wrong.push(`${path}: ${name}`);
  }
  assert.deepEqual(wrong, []);
});

Deno.test("paths: a file that has moved is found", async () => {
  const text =
    "`lib/kube/mod.ts`, lib/gone.ts, ../lib/gone.ts and `roles/gone/mod.ts`.";
  assert.deepEqual(await missing(text), ["lib/gone.ts", "roles/gone/mod.ts"]);
});
