import assert from "node:assert/strict";
import { runDenoTest } from "./deno_tests.ts";

const REPORT = '<testsuites><testcase name="one" classname="a"/></testsuites>';

/** Runs nothing, and returns what deno would have got: its arguments and the text of the module among them. */
async function argumentsOf(
  options: { readonly paths: readonly string[]; readonly together?: true },
): Promise<{ readonly args: readonly string[]; readonly module: string }> {
  let seen: readonly string[] = [];
  let module = "";
  const counts = await runDenoTest({
    ...options,
    args: [],
    filtered: false,
    show: () => {},
    run: async (args, { reportDir }) => {
      seen = args;
      module = await Deno.readTextFile(args.at(-1) ?? "").catch(() => "");
      await Deno.writeTextFile(`${reportDir}/junit.xml`, REPORT);
      return true;
    },
  });
  assert.equal(counts.passed, 1);
  return { args: seen, module };
}

Deno.test("runDenoTest() makes one module of all files of the paths, each once, sorted", async () => {
  const dir = await Deno.makeTempDir();
  const other = await Deno.makeTempDir();
  for (const name of ["b_test.ts", "a_test.ts", "lab.ts"]) {
    await Deno.writeTextFile(`${dir}/${name}`, "");
  }
  await Deno.writeTextFile(`${other}/c_test.ts`, "");
  const paths = [dir, `${other}/c_test.ts`, `${dir}/a_test.ts`, "/nowhere"];
  const { args, module } = await argumentsOf({ paths, together: true });
  assert.equal(args.filter((arg) => arg.endsWith("_test.ts")).length, 1);
  assert.deepEqual(module.trim().split("\n"), [
    `import "${dir}/a_test.ts";`,
    `import "${dir}/b_test.ts";`,
    `import "${other}/c_test.ts";`,
  ]);
  for (const one of [dir, other]) await Deno.remove(one, { recursive: true });
});

Deno.test("runDenoTest() leaves files to deno that are not to be one module", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/a_test.ts`, "");
  const { args } = await argumentsOf({ paths: [dir, "/nowhere"] });
  assert.equal(args.at(-1), dir);
  assert.ok(!args.includes("/nowhere"));
  await Deno.remove(dir, { recursive: true });
});
