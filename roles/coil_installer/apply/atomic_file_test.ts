import assert from "node:assert/strict";
import { removeLeftovers, replaceFile } from "./atomic_file.ts";
import { ChangedMeanwhileError } from "../base/errors.ts";
import { applySteps } from "./steps.ts";

async function inDirectory(
  test: (directory: string) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const write = (text: string) => async (file: Deno.FsFile) => {
  await file.write(new TextEncoder().encode(text));
};

function namesIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

Deno.test("replaceFile() sets the mode, regardless of the umask", () =>
  inDirectory(async (directory) => {
    // No umask in use lets a group write.
    await replaceFile(`${directory}/a`, { mode: 0o666, write: write("new") });
    const { mode } = await Deno.stat(`${directory}/a`);
    assert.equal((mode ?? 0) & 0o7777, 0o666);
  }));

Deno.test("replaceFile() leaves the old file and nothing else when it fails", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/a`;
    await Deno.writeTextFile(path, "old");
    const failing = async (file: Deno.FsFile) => {
      await write("half")(file);
      throw new Error("disk on fire");
    };
    await assert.rejects(
      replaceFile(path, { mode: 0o600, write: failing }),
      /on fire/,
    );
    const refused = replaceFile(path, {
      mode: 0o600,
      write: write("new"),
      beforeRename: async (temporary) => {
        assert.equal(await Deno.readTextFile(temporary), "new");
        assert.equal(await Deno.readTextFile(path), "old");
        throw new Error("not good enough");
      },
    });
    await assert.rejects(refused, /good enough/);
    assert.equal(await Deno.readTextFile(path), "old");
    assert.deepEqual(namesIn(directory), ["a"]);
  }));

Deno.test("replaceFile() replaces a symbolic link and leaves alone what it leads to", () =>
  inDirectory(async (directory) => {
    await Deno.writeTextFile(`${directory}/target`, "old");
    await Deno.symlink("target", `${directory}/a`);
    await replaceFile(`${directory}/a`, { mode: 0o600, write: write("new") });
    assert.equal(await Deno.readTextFile(`${directory}/target`), "old");
    assert.ok((await Deno.lstat(`${directory}/a`)).isFile);
  }));

Deno.test("removeLeftovers() takes what is left of interrupted writing, and nothing else", () =>
  inDirectory(async (directory) => {
    for (const name of [".coil-installer-x", "coil", ".other"]) {
      await Deno.writeTextFile(`${directory}/${name}`, "");
    }
    assert.deepEqual(await removeLeftovers(directory), [
      `${directory}/.coil-installer-x`,
    ]);
    assert.deepEqual(namesIn(directory), [".other", "coil"]);
  }));

Deno.test("a configuration that another tool changed since it was read is not overwritten", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/10-coil.conflist`;
    const apply = (expected: string | undefined) =>
      applySteps([{ kind: "writeConfig", path, text: "new", expected }], {
        signal: new AbortController().signal,
        dryRun: false,
      });
    await Deno.writeTextFile(path, "theirs");
    await assert.rejects(apply("old"), ChangedMeanwhileError);
    await assert.rejects(apply(undefined), ChangedMeanwhileError);
    assert.equal(await Deno.readTextFile(path), "theirs");
    assert.deepEqual(namesIn(directory), ["10-coil.conflist"]);
    await apply("theirs");
    assert.equal(await Deno.readTextFile(path), "new");
    await Deno.remove(path);
    await assert.rejects(apply("new"), ChangedMeanwhileError);
    await apply(undefined);
    assert.equal(await Deno.readTextFile(path), "new");
  }));

Deno.test("a dry run changes nothing", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/a`;
    await Deno.writeTextFile(path, "old");
    await applySteps([
      { kind: "writeConfig", path, text: "new", expected: "old" },
      { kind: "rename", path, to: `${directory}/b` },
      { kind: "remove", path },
    ], { signal: new AbortController().signal, dryRun: true });
    assert.equal(await Deno.readTextFile(path), "old");
    assert.deepEqual(namesIn(directory), ["a"]);
  }));
