import { say } from "../runner/output.ts";
import type { TreeCopy } from "./tree.ts";
import type { WiringMutant, WiringTest } from "./wiring_mutant.ts";

/** Makes each change of the list in the copy and runs its test. Returns whether each test passes without the change and fails with it. */
export async function tryWiring(
  copy: TreeCopy,
  list: readonly WiringMutant[],
): Promise<boolean> {
  const good = new Set<string>();
  let noticed = 0;
  for (const { name, file, from, to, test } of list) {
    const { step = test.filter ?? "" } = test;
    const key = JSON.stringify([test.file, test.filter]);
    if (!good.has(key) && await failuresOf(copy.root, test) === undefined) {
      good.add(key);
    }
    const outcome = !good.has(key)
      ? "test fails without the change"
      : await copy.withText(
        file,
        (text) => replaceOnce(text, { from, to, file }),
        async () => judge(await failuresOf(copy.root, test), step),
      );
    if (outcome === "killed") noticed++;
    const by = step === "" ? test.file : `${test.file}: ${step}`;
    say(`${outcome.padEnd(9)} ${file}  ${name}  (${by})`);
  }
  say(`${noticed} of ${list.length} noticed`);
  return noticed === list.length;
}

/** What failures say of a change: it counts only where the test that is to notice it is among them. */
export function judge(
  failures: readonly string[] | undefined,
  step: string,
): "killed" | "survived" | "not by its test" {
  if (failures === undefined) return "survived";
  return failures.some((name) => name.includes(step))
    ? "killed"
    : "not by its test";
}

/** The text with the only place of `from` changed. */
export function replaceOnce(
  text: string,
  { from, to, file }: Pick<WiringMutant, "from" | "to" | "file">,
): string {
  const places = text.split(from);
  if (places.length !== 2) {
    throw new RangeError(
      `Cannot change "${file}": "${from}" is in it ${places.length - 1} times`,
    );
  }
  return places.join(to);
}

/** Runs the test as `deno task test` does, which makes all that it needs from the copy. Returns the names of tests and steps that failed; undefined when all is well. */
async function failuresOf(
  root: string,
  { file, filter }: WiringTest,
): Promise<string[] | undefined> {
  const args = ["run", "-A", "tests/run.ts", "--allow-skips", file];
  const { success, stdout } = await new Deno.Command(Deno.execPath(), {
    args: filter === undefined ? args : [...args, "--filter", filter],
    cwd: root,
    stdout: "piped",
    stderr: "null",
  }).output();
  if (success) return undefined;
  const text = new TextDecoder().decode(stdout);
  return [...text.matchAll(/^FAILED [^:]+: (.*)$/gm)].map(([, name = ""]) =>
    name
  );
}
