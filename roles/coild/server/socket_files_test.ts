import assert from "node:assert/strict";
import { SocketFiles } from "./socket_files.ts";

Deno.test("SocketFiles notices a file that is removed, and one that is replaced", async () => {
  const directory = await Deno.makeTempDir();
  const [one, other] = [`${directory}/one`, `${directory}/other`];
  const files = new SocketFiles();
  assert.equal(files.check(), true);
  assert.equal(files.isEmpty, true);
  for (const path of [one, other]) await Deno.writeTextFile(path, "");
  files.add([one, other]);
  assert.equal(files.check(), true);
  assert.equal(files.isEmpty, false);
  await Deno.writeTextFile(`${directory}/new`, "");
  await Deno.rename(`${directory}/new`, other);
  assert.match(`${files.check()}`, /^".*\/other" was removed or replaced/);
  await Deno.remove(one);
  assert.match(`${files.check()}`, /^".*\/one" was removed or replaced/);
  await Deno.remove(directory, { recursive: true });
  assert.match(`${files.check()}`, /^".*\/one" was removed or replaced/);
});
