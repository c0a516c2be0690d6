import assert from "node:assert/strict";
import { WIRING } from "./wiring.ts";
import { replaceOnce } from "./wiring_trial.ts";

const ROOT = new URL("../../", import.meta.url);

for (const { name, file, from, to, test } of WIRING) {
  const step = test.step ?? test.filter ?? "";

  Deno.test(`"${name}" can be made, its test is there, and documented`, async () => {
    const text = await Deno.readTextFile(new URL(file, ROOT));
    assert.notEqual(replaceOnce(text, { from, to, file }), text);
    const tests = await Deno.readTextFile(new URL(test.file, ROOT));
    assert.ok(tests.includes(step), step);
    const page = await Deno.readTextFile(new URL("docs/testing.md", ROOT));
    assert.ok(page.includes(`| ${name} | \`${test.file}\`: ${step} |`));
  });
}
