// `task build` by deno compile, and without a C compiler. The deno command line
// program stands in for denort, which only a network has: so the file's front
// can be seen at work, and that what comes after it starts.
import assert from "node:assert/strict";
import { findSocketField } from "../../roles/coil_installer/base/front.ts";
import { copyPlugin } from "../lab/plugin_file.ts";
import { CALL, OneFile } from "./one_file.ts";
import { runFile } from "./testing.ts";

const BUILD = new URL("../../deploy/executable/build.ts", import.meta.url);

/** Builds into a directory; what was said. */
async function build(
  directory: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", BUILD.pathname, `--out=${directory}/built`],
    env: {
      COIL_CACHE: `${directory}/cache`,
      DENORT_BIN: Deno.execPath(),
      ...env,
    },
  }).output();
  const decoder = new TextDecoder();
  assert.ok(success, decoder.decode(stderr));
  return decoder.decode(stdout);
}

Deno.test("deno compile: the file has the front, answers a runtime by it, and goes on as denort", async () => {
  await using one = await OneFile.make({ isEmpty: true });
  const said = await build(one.root, {});
  assert.match(said, /deno compile, with denort from DENORT_BIN/);
  const { root: directory, socket } = one;
  const executable = `${directory}/built`;
  const coil = await copyPlugin(directory, { executable, socket });
  {
    await using _coild = one.answer();
    const call = { env: CALL, stdin: one.config };
    const { code, stdout } = await runFile(coil, call);
    assert.deepEqual([code, stdout], [0, '"cid0"']);
  }
  const { stdout } = await runFile(coil, { args: ["--version"] });
  assert.match(stdout, /^deno \d/);
});

Deno.test("without a C compiler deno compile works, and the build says what is slower", async () => {
  await using one = await OneFile.make({ isEmpty: true });
  const said = await build(one.root, { CC: "/nowhere/cc" });
  assert.match(said, /no C compiler .* 16 ms more per call/);
  const built = `${one.root}/built`;
  using file = await Deno.open(built);
  assert.equal(await findSocketField(file), undefined);
  const { stdout } = await runFile(built, { args: ["--version"] });
  assert.match(stdout, /^deno \d/);
});
