import assert from "node:assert/strict";
import * as path from "node:path";
import { machineDir } from "./machine_dir.ts";

const MODULE = new URL("machine_dir.ts", import.meta.url).href;

/** A process that makes a directory of a machine, says so and stays until it is told to go. */
async function owner(
  parent: string,
): Promise<{ readonly dir: string; readonly child: Deno.ChildProcess }> {
  const program = `
import { machineDir } from ${JSON.stringify(MODULE)};
const dir = await machineDir({ parent: ${JSON.stringify(parent)} });
Deno.addSignalListener("SIGTERM", () => Deno.exit(3));
console.log(dir.path);
await new Promise(() => setInterval(() => {}, 1000));`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-check", "--ext=ts", program],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return { dir: new TextDecoder().decode(value).trim(), child };
}

async function end(
  child: Deno.ChildProcess,
  signal: Deno.Signal,
): Promise<void> {
  child.kill(signal);
  await child.status;
}

function namesIn(dir: string): string[] {
  return [...Deno.readDirSync(dir)].map(({ name }) => name).sort();
}

Deno.test("machineDir() leaves those of others alone, removes those of the killed, and its own at the end", async () => {
  const parent = await Deno.makeTempDir();
  try {
    const alive = await owner(parent);
    const killed = await owner(parent);
    await end(killed.child, "SIGKILL");
    assert.equal(namesIn(parent).length, 2);
    {
      await using mine = await machineDir({ parent });
      assert.deepEqual(namesIn(mine.path), ["lock"]);
      const left = [mine.path, alive.dir].map((dir) => path.basename(dir));
      assert.deepEqual(namesIn(parent), left.sort());
    }
    assert.deepEqual(namesIn(parent), [path.basename(alive.dir)]);
    await end(alive.child, "SIGTERM");
    assert.deepEqual(namesIn(parent), []);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
});

Deno.test("machineDir() may be called by many at once", async () => {
  const parent = await Deno.makeTempDir();
  try {
    await Promise.all(Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 25; i++) {
        await using dir = await machineDir({ parent });
        await Deno.writeTextFile(path.join(dir.path, "console"), "");
      }
    }));
    assert.deepEqual(namesIn(parent), []);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
});

Deno.test("machineDir() removes what a process left that never took its lock, in time", async () => {
  const parent = await Deno.makeTempDir();
  try {
    const [old, recent] = ["coil-vm.old", "coil-vm.recent"];
    for (const name of [old, recent]) await Deno.mkdir(path.join(parent, name));
    const long = new Date(Date.now() - 2 * 3_600_000);
    await Deno.utime(path.join(parent, old), long, long);
    await using _mine = await machineDir({ parent });
    assert.equal(namesIn(parent).includes(old), false);
    assert.equal(namesIn(parent).includes(recent), true);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
});
