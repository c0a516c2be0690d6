import assert from "node:assert/strict";
import { writeManifest, writeNewFile } from "./manifest_file.ts";

async function inDirectory(
  test: (dir: string) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await test(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("writeManifest() does not write through a link that somebody put in its way", async () => {
  await inDirectory(async (dir) => {
    await Deno.writeTextFile(`${dir}/passwd`, "root");
    for (const target of [`${dir}/passwd`, `${dir}/new`]) {
      await Deno.symlink(target, `${dir}/manifest.part`);
      await writeManifest(`${dir}/manifest`, "items");
      assert.equal(await Deno.readTextFile(`${dir}/manifest`), "items");
      assert.equal(await Deno.readTextFile(`${dir}/passwd`), "root");
      await assert.rejects(Deno.lstat(`${dir}/new`), Deno.errors.NotFound);
      await assert.rejects(
        Deno.lstat(`${dir}/manifest.part`),
        Deno.errors.NotFound,
      );
    }
  });
});

Deno.test("writeManifest() replaces a link, and not the file behind it", async () => {
  await inDirectory(async (dir) => {
    await Deno.writeTextFile(`${dir}/passwd`, "root");
    await Deno.symlink(`${dir}/passwd`, `${dir}/manifest`);
    await writeManifest(`${dir}/manifest`, "items");
    assert.equal(await Deno.readTextFile(`${dir}/passwd`), "root");
    assert.equal((await Deno.lstat(`${dir}/manifest`)).isFile, true);
  });
});

Deno.test("writeManifest() takes the place of what an earlier run left", async () => {
  await inDirectory(async (dir) => {
    await Deno.writeTextFile(`${dir}/manifest.part`, "half of a longer text");
    await writeManifest(`${dir}/manifest`, "items");
    assert.equal(await Deno.readTextFile(`${dir}/manifest`), "items");
  });
});

Deno.test("writeNewFile() follows no link that came since somebody looked", async () => {
  await inDirectory(async (dir) => {
    await Deno.writeTextFile(`${dir}/passwd`, "root");
    for (const target of [`${dir}/passwd`, `${dir}/new`]) {
      const link = `${target}-link`;
      await Deno.symlink(target, link);
      await assert.rejects(writeNewFile(link, "items"), {
        name: "AlreadyExists",
      });
    }
    assert.equal(await Deno.readTextFile(`${dir}/passwd`), "root");
    await assert.rejects(Deno.lstat(`${dir}/new`), Deno.errors.NotFound);
  });
});
