import assert from "node:assert/strict";

Deno.test("fuzz: a reader that does not come back ends the process, with its name and its input", async () => {
  const file = new URL("endless.ts", import.meta.url).pathname;
  const { success, stderr, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "--no-check", file],
    signal: AbortSignal.timeout(120_000),
  }).output();
  const said = new TextDecoder().decode(stderr);
  assert.ok(!success);
  assert.match(
    said,
    /Finding: after \d+ ms there is no end to endless on "the loop"/,
    new TextDecoder().decode(stdout),
  );
});
