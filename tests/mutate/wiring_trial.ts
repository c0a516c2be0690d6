import { say } from "../runner/output.ts";
import type { TreeCopy } from "./tree.ts";
import { WIRING } from "./wiring.ts";
import type { WiringMutant } from "./wiring_mutant.ts";

/** Makes each change of the list in the copy and runs its test. Returns whether each test passes without the change and fails with it. */
export async function tryWiring(
  copy: TreeCopy,
  list: readonly WiringMutant[] = WIRING,
): Promise<boolean> {
  const good = new Set<string>();
  let noticed = 0;
  for (const { name, file, from, to, test } of list) {
    const key = JSON.stringify(test);
    if (!good.has(key) && await passes(copy.root, test)) good.add(key);
    const outcome = !good.has(key)
      ? "test fails without the change"
      : await copy.withText(
        file,
        (text) => replaceOnce(text, { from, to, file }),
        async () => await passes(copy.root, test) ? "survived" : "killed",
      );
    if (outcome === "killed") noticed++;
    say(`${outcome.padEnd(9)} ${file}  ${name}  (${test.file})`);
  }
  say(`${noticed} of ${list.length} noticed`);
  return noticed === list.length;
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

/** Runs the test as `deno task test` does, which makes all that it needs from the copy. */
async function passes(
  root: string,
  { file, filter }: WiringMutant["test"],
): Promise<boolean> {
  const args = ["run", "-A", "tests/run.ts", "--allow-skips", file];
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: filter === undefined ? args : [...args, "--filter", filter],
    cwd: root,
    stdout: "null",
    stderr: "null",
  }).output();
  return success;
}
