import assert from "node:assert/strict";
import { readCommandLine } from "../../lib/flags/mod.ts";
import { flagsMarkdown } from "../../lib/flags/testing.ts";
import { ROUTER_FLAGS } from "./flags.ts";

Deno.test("docs/roles/coil-router.md lists the flags", async () => {
  const docs = new URL("../../docs/roles/coil-router.md", import.meta.url);
  const text = await Deno.readTextFile(docs);
  assert.ok(text.includes(flagsMarkdown(ROUTER_FLAGS).trim()));
});

Deno.test("coil-router --update-interval of 0 is refused, for it would never rest", () => {
  const info = { program: "coil-router", version: "0", about: "" };
  const read = (interval: string) =>
    readCommandLine(ROUTER_FLAGS, ["--update-interval", interval], info);
  assert.throws(() => read("0"), /"0" for "--update-interval".* 1s/);
  assert.equal(read("1s").kind, "run");
});

Deno.test("coil-router --protocol-id of the kernel's or the admin's routes is refused", () => {
  const info = { program: "coil-router", version: "0", about: "" };
  const read = (id: number) =>
    readCommandLine(ROUTER_FLAGS, ["--protocol-id", String(id)], info);
  for (const id of [0, 1, 2, 3, 4, 256]) {
    assert.throws(() => read(id), /needs a number from 5 to 255/);
  }
  assert.equal(read(5).kind, "run");
});
