import assert from "node:assert/strict";
import { runningFiles } from "./running_files.ts";

async function mark(directory: string, name: string, second: number) {
  const file = `${directory}/${name}`;
  const module = new URL(`./${name}_test.ts`, import.meta.url).href;
  await Deno.writeTextFile(file, module);
  await Deno.utime(file, second, second);
}

Deno.test("runningFiles() has the files that have left a mark, and the last one of those that run in turn", async () => {
  const directory = await Deno.makeTempDir();
  await mark(directory, "a", 3);
  // A test that changed its root leaves its mark.
  await mark(directory, "b", 2);
  // This one begins just now.
  await Deno.writeTextFile(`${directory}/c`, "");
  assert.deepEqual(await runningFiles(directory), [
    "tests/runner/a_test.ts",
    "tests/runner/b_test.ts",
  ]);
  assert.deepEqual(await runningFiles(directory, { inTurn: true }), [
    "tests/runner/a_test.ts",
  ]);
  await Deno.remove(directory, { recursive: true });
  assert.deepEqual(await runningFiles(directory), []);
});
