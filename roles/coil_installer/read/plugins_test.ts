import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { askVersions } from "./plugins.ts";

const SIGNAL = new AbortController().signal;

/** A plugin with these contents, in a directory of its own. */
async function withPlugin(
  contents: Uint8Array | string,
  test: (path: string) => Promise<void>,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    const path = `${directory}/plugin`;
    const bytes = typeof contents === "string"
      ? new TextEncoder().encode(contents)
      : contents;
    await Deno.writeFile(path, bytes, { mode: 0o755 });
    await test(path);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("askVersions() asks by the specification's VERSION, with a configuration", () =>
  withPlugin(
    `#!/bin/sh\n[ "$CNI_COMMAND" = VERSION ] && cat > "$0.stdin" && echo '{"supportedVersions":["1.0.0"]}'\n`,
    async (path) => {
      assert.deepEqual(await askVersions(path, SIGNAL), ["1.0.0"]);
      const stdin = JSON.parse(await Deno.readTextFile(`${path}.stdin`));
      assert.deepEqual(stdin, { cniVersion: "1.1.0" });
    },
  ));

Deno.test("askVersions() has no answer of what is not there, ends with nothing, or says something else", async () => {
  assert.equal(await askVersions("/none", SIGNAL), undefined);
  for (const answer of ["", "hello", "{}", '{"supportedVersions":[1]}']) {
    await withPlugin(`#!/bin/sh\necho '${answer}'\n`, async (path) => {
      assert.equal(await askVersions(path, SIGNAL), undefined, answer);
    });
  }
});

/** An executable of this machine, cut short behind its header. To sh the header is a wrong command and a comment. */
function cutExecutable(): Uint8Array {
  const header = Deno.readFileSync("/bin/true").subarray(0, 64);
  header.set(new TextEncoder().encode("\n#"), 9); // EI_PAD of elf(5)
  return header;
}

Deno.test("bug: a damaged executable was interpreted as a shell script", async () => {
  const made = await Deno.makeTempDir();
  try {
    const commands = new TextEncoder().encode(`\n: > ${made}/made-by-sh\n`);
    const damaged = new Uint8Array([...cutExecutable(), ...commands]);
    await withPlugin(damaged, async (path) => {
      assert.equal(await askVersions(path, SIGNAL), undefined);
    });
    assert.deepEqual(await Array.fromAsync(Deno.readDir(made)), []);
  } finally {
    await Deno.remove(made, { recursive: true });
  }
});

Deno.test("askVersions() waits for a plugin that somebody has open for writing still", () =>
  withPlugin(
    '#!/bin/sh\necho \'{"supportedVersions":["1.0.0"]}\'\n',
    async (path) => {
      const writing = await Deno.open(path, { write: true });
      const answer = askVersions(path, SIGNAL);
      await sleep(100);
      writing.close();
      assert.deepEqual(await answer, ["1.0.0"]);
    },
  ));
