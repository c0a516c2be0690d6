import assert from "node:assert/strict";

const DOCUMENT = "docs/security.md";
const HEADING = "## Who can do what to whom";

/** The section whose table names a test for each attack. */
async function section(): Promise<string> {
  const text = await Deno.readTextFile(DOCUMENT);
  const [, after] = text.split(`${HEADING}\n`);
  assert.ok(after !== undefined, `${DOCUMENT} has no "${HEADING}"`);
  return after.split("\n## ")[0] ?? "";
}

/** Files of tests that the section names, by path from the root. */
async function namedTests(): Promise<ReadonlySet<string>> {
  const matches = (await section()).matchAll(
    /`((?:tests|lib|roles)\/[^`\s]+_test\.ts)`/g,
  );
  return new Set([...matches].map((match) => match[1] ?? ""));
}

async function attackTests(): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir("tests/hostile")) {
    if (name.endsWith("_test.ts")) found.push(`tests/hostile/${name}`);
  }
  for (const folder of ["tests/netns", "tests/vm"]) {
    for await (const { name } of Deno.readDir(folder)) {
      if (/^hostile_.*_test\.ts$/.test(name)) found.push(`${folder}/${name}`);
    }
  }
  return found.sort();
}

Deno.test("each test that the security table names exists", async () => {
  const missing: string[] = [];
  for (const file of await namedTests()) {
    if (!await Deno.stat(file).catch(() => undefined)) missing.push(file);
  }
  assert.deepEqual(missing, []);
});

Deno.test("the security table names each test of an attack", async () => {
  const named = await namedTests();
  const unnamed = (await attackTests()).filter((file) => !named.has(file));
  assert.deepEqual(unnamed, []);
});
