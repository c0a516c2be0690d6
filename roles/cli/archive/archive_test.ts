import assert from "node:assert/strict";
import { CommandError } from "../../../lib/command/mod.ts";
import { Archive } from "./archive.ts";

const NOW = new Date("2026-06-01T10:00:00Z");

async function withDirectory(
  test: (directory: string) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const namesIn = (directory: string) =>
  [...Deno.readDirSync(directory)].map(({ name }) => name);

Deno.test("an archive is there when it is finished, for its owner alone", async () => {
  await withDirectory(async (directory) => {
    const file = `${directory}/dump.tar.gz`;
    {
      await using archive = await Archive.create(file, {
        now: NOW,
        maxBytes: 10,
      });
      assert.ok(await archive.add("a.txt", "héllo"));
      assert.equal(await archive.add("b.txt", "12345"), false);
      assert.ok(await archive.add("c/d.txt", "1234"));
      assert.deepEqual(namesIn(directory).includes("dump.tar.gz"), false);
      await archive.finish("SUMMARY.txt", "longer than the rest");
    }
    assert.deepEqual(namesIn(directory), ["dump.tar.gz"]);
    const { mode } = await Deno.stat(file);
    assert.equal((mode ?? 0) & 0o777, 0o600);
    const { success, stdout } = await new Deno.Command("tar", {
      args: ["-xzvOf", file],
      stderr: "piped",
    }).output();
    assert.ok(success);
    assert.equal(
      new TextDecoder().decode(stdout),
      "héllo1234longer than the rest",
    );
  });
});

Deno.test("an archive that is not finished leaves nothing", async () => {
  await withDirectory(async (directory) => {
    const file = `${directory}/dump.tar.gz`;
    await assert.rejects(async () => {
      await using archive = await Archive.create(file, {
        now: NOW,
        maxBytes: 1_000,
      });
      await archive.add("a.txt", "x");
      throw new Error("interrupted");
    }, /interrupted/);
    assert.deepEqual(namesIn(directory), []);
  });
});

Deno.test("a file that exists is not replaced, and why there can be none is said", async () => {
  await withDirectory(async (directory) => {
    const file = `${directory}/dump.tar.gz`;
    await Deno.writeTextFile(file, "mine");
    const options = { now: NOW, maxBytes: 1_000 };
    await assert.rejects(
      Archive.create(file, options),
      (error) => error instanceof CommandError && /exists/.test(error.message),
    );
    assert.equal(await Deno.readTextFile(file), "mine");
    await assert.rejects(
      Archive.create(`${directory}/no/dump.tar.gz`, options),
      (error) =>
        error instanceof CommandError &&
        /directory does not exist/.test(error.message),
    );
  });
});
