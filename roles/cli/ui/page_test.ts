import assert from "node:assert/strict";

const ROOT = new URL("../../../", import.meta.url).pathname;

Deno.test("the page that is served is bundled from its sources: run deno task page", async () => {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "deploy/page.ts", "--check"],
    cwd: ROOT,
  }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
});
