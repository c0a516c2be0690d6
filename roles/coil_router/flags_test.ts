import assert from "node:assert/strict";
import { flagsMarkdown } from "../../lib/flags/mod.ts";
import { ROUTER_FLAGS } from "./flags.ts";

Deno.test("docs/roles/coil-router.md lists the flags", async () => {
  const docs = new URL("../../docs/roles/coil-router.md", import.meta.url);
  const text = await Deno.readTextFile(docs);
  assert.ok(text.includes(flagsMarkdown(ROUTER_FLAGS).trim()));
});
