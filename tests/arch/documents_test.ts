// Documents whose commands no test would find, or that nobody could run.
import assert from "node:assert/strict";
import { COMMANDS as COIL_COMMANDS } from "../../roles/cli/mod.ts";
import {
  type Block,
  blocksOf,
  hasCommands,
  indentedLines,
  inlineCommands,
  type Page,
  readPages,
  ROOT,
} from "./pages.ts";

const PAGES = await readPages();
const BLOCKS = PAGES.flatMap(blocksOf);
const COMMANDS = BLOCKS.filter(hasCommands);

Deno.test("code in documents is in fences: no test finds commands that are only indented", () => {
  const found = PAGES.flatMap((page) =>
    indentedLines(page).map((line) => `${page.path}: ${line}`)
  );
  assert.deepEqual(found, []);
  const example: Page = {
    path: "example.md",
    text: "1. Look:\n\n   ```sh\n       ls\n   ```\n\n       rm all\n",
  };
  assert.deepEqual(indentedLines(example), ["       rm all"]);
  assert.deepEqual(blocksOf(example), [
    { page: "example.md", info: "sh", text: "    ls\n" },
  ]);
});

Deno.test("a fence says what is in it, and commands are in those of a shell", () => {
  for (const block of BLOCKS) {
    const { page, info, text } = block;
    assert.notEqual(info, "", `${page}:\n${text}`);
    if (hasCommands(block)) continue;
    assert.doesNotMatch(text, /^(\$ |kubectl |helm |coil )/m, page);
  }
});

/** Whether something runs the block, or it says why nothing does. */
async function isAccountedFor(
  { page, info, text }: Block,
): Promise<boolean> {
  if (/^(sh|console) tested=[a-z-]+$/.test(info)) return true;
  if (info === "sh" && /^# not tested here: \S/.test(text)) return true;
  if (/^console not-tested=[a-z-]+$/.test(info)) return true;
  const [, test] = /^console tested-by=(\S+_test\.ts)$/.exec(info) ?? [];
  if (test === undefined) return false;
  return readsCommands(await Deno.readTextFile(ROOT + test), page);
}

/** Whether a test takes its commands from the document, so that a change of them is a change of the test. */
function readsCommands(test: string, page: string): boolean {
  const call =
    /tested(?:Commands|Sessions)\(\s*"([^"]+)",\s*import\.meta\.url,?\s*\)/g;
  return [...test.matchAll(call)].some(([, from]) => from === page);
}

Deno.test("a block of commands in a document is run by a test, or says that it is not", async () => {
  assert.ok(COMMANDS.length > 30);
  for (const block of COMMANDS) {
    const { page, info, text } = block;
    assert.ok(await isAccountedFor(block), `${page}: ${info}\n${text}`);
  }
});

Deno.test("documents apply overlays with the name of an image that nodes can pull", () => {
  for (const { path, text } of PAGES) {
    // kind gets the image under the name that the overlays have.
    const rest = text.replaceAll(/^kind load [^]*?^```$/gm, "");
    assert.doesNotMatch(rest, /kubectl apply -k \S*overlays\//, path);
  }
});

Deno.test("documents look for Events of objects without a namespace where they are", () => {
  for (const { path, text } of PAGES) {
    const kinds =
      "AddressPool|AddressBlock|BlockRequest|Node|SpiderCoordinator|VPCNode";
    const wrong = new RegExp(
      `kubectl get events (?!-n default ).*involvedObject\\.kind=(${kinds})`,
    );
    assert.doesNotMatch(text, wrong, path);
  }
});

/** The commands of helm in sentences of which a part is left out. */
const HELM_NAMES = ["helm uninstall", "helm upgrade"];

Deno.test("no command of helm is in a sentence, where no test runs it", () => {
  const found = PAGES.flatMap((page) => inlineCommands(page, "helm"));
  assert.deepEqual([...new Set(found)].sort(), HELM_NAMES);
});

/** The flags of a command, by their names; undefined when the command does not exist. */
function flagsOf(words: string): readonly string[] | undefined {
  const found = COIL_COMMANDS.filter(({ path }) =>
    `${words} `.startsWith(`${path} `) || path.startsWith(`${words} `)
  );
  if (found.length === 0) return undefined;
  return found.flatMap(({ flags }) => Object.keys(flags));
}

Deno.test("a command of coil in a sentence exists, and so do its flags", () => {
  let count = 0;
  for (const page of PAGES) {
    for (const command of inlineCommands(page, "coil")) {
      const [words = ""] = /(?<=^coil )[a-z]+(?: [a-z]+)*/.exec(command) ?? [];
      // Programs and the migration have tests of their own.
      if (
        /^(|coild|controller|router|installer|migrate|probe|help)( |$)/.test(
          words,
        )
      ) continue;
      const flags = flagsOf(words);
      assert.ok(flags !== undefined, `${page.path}: ${command}`);
      for (const [flag] of command.matchAll(/--[a-z-]+/g)) {
        assert.ok(flags.includes(flag.slice(2)), `${page.path}: ${command}`);
      }
      count++;
    }
  }
  assert.ok(count > 20, `${count} commands`);
});
