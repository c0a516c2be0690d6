// README's demo: each chapter checks what it shows, so that its exit code says whether all of it is true.
import assert from "node:assert/strict";
import { run } from "../lab/mod.ts";

async function demo(...args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", "demo", ...args],
    env: { NO_COLOR: "1" },
  }).output();
  const text = new TextDecoder().decode(stdout);
  const errors = new TextDecoder().decode(stderr);
  assert.ok(success, `${text}\n${errors}`);
  const left = await run("ip", ["netns", "list"]);
  assert.doesNotMatch(left, /^coil-demo-/m, "it leaves its namespaces");
  return text;
}

Deno.test("task demo tells its whole story", async () => {
  const text = await demo();
  assert.match(text, /demo --egress/, "it says what else there is");
});

Deno.test("task demo --egress tells its whole story", async () => {
  await demo("--egress");
});

Deno.test("task demo --vpc tells its whole story", async () => {
  const text = await demo("--vpc");
  assert.match(text, /✓ their ENIs are detached and deleted/);
});

Deno.test("task demo --coordinator tells its whole story", async () => {
  const text = await demo("--coordinator");
  assert.match(text, /✓ ADDs survive that coild is killed/);
});
