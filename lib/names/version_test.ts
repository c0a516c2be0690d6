import assert from "node:assert/strict";
import { VERSION } from "./mod.ts";

Deno.test("VERSION is that of deno.json", async () => {
  const file = new URL("../../deno.json", import.meta.url);
  const config = JSON.parse(await Deno.readTextFile(file));
  assert.equal(VERSION, config.version);
});
