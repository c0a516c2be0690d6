// What has to hold for each content of the directory: the steps are played on
// a directory in memory.
import assert from "node:assert/strict";
import fc from "fast-check";
import { planChain, planConfig } from "./config_plan.ts";
import { withNote } from "./merge.ts";
import {
  parseNetworkList,
  parseWantedList,
  typesOf,
} from "../base/network_list.ts";
import { type ConfigFile, examine } from "../read/situation.ts";
import type { Step } from "./step.ts";

const NAME = "10-coil.conflist";
const DIRECTORY = "/d";

type Directory = Map<string, ConfigFile>;

/** Does to the directory what `applySteps()` does to a real one. */
function play(directory: Directory, step: Step): void {
  const nameOf = (path: string) => path.slice(DIRECTORY.length + 1);
  const name = nameOf(step.path);
  const file = directory.get(name);
  if (step.kind === "writeConfig") {
    assert.equal(file?.text, step.expected);
    const written = { name, text: step.text, mode: 0o600, isLink: false };
    directory.set(name, written);
    return;
  }
  assert.ok(file !== undefined, `no file for ${step.kind}`);
  switch (step.kind) {
    case "setMode":
      directory.set(name, { ...file, mode: step.mode });
      break;
    case "keepCopy":
      directory.set(nameOf(step.as), { ...file, name: nameOf(step.as) });
      break;
    case "rename":
      directory.delete(name);
      directory.set(nameOf(step.to), { ...file, name: nameOf(step.to) });
      break;
    case "remove":
      directory.delete(name);
      break;
    case "installProgram":
      assert.fail("no executable here");
  }
}

function listText(types: readonly string[]): string {
  const plugins = types.map((type) => ({ type }));
  return JSON.stringify({ cniVersion: "1.0.0", name: "net", plugins });
}

/** As the installer wrote it, before others added to it. */
function writtenText(own: readonly string[], added: readonly string[]): string {
  const wanted = parseNetworkList(listText(["coil", ...own]));
  const plugins = ["coil", ...own, ...added].map((type) => ({ type }));
  return JSON.stringify({ ...withNote(wanted, wanted), plugins });
}

const types = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 3 });
const foreignTypes = fc.array(fc.constantFrom("x-1", "x-2"), { maxLength: 2 });
const texts = fc.oneof(
  fc.constantFrom("", "{", "[]", '{"type":"loopback","name":"lo"}'),
  fc.tuple(types, foreignTypes).map(([own, added]) => writtenText(own, added)),
  fc.tuple(foreignTypes, types).map(([before, after]) =>
    listText([...before, "coil", ...after])
  ),
  types.map((all) => listText(["main", ...all])),
);
const files = fc.dictionary(
  fc.constantFrom(
    NAME,
    "01-coil.conflist",
    "05-other.conflist",
    "10-bridge.conf",
    "99-last.conflist",
    "notes.txt",
    `${NAME}.coil-disabled`,
  ),
  fc.tuple(texts, fc.constantFrom(0o600, 0o644), fc.boolean()),
);

Deno.test("planConfig() never leaves the node without ours, loses nothing of others, and has nothing to do afterwards, with any files there", () => {
  fc.assert(
    fc.property(
      files,
      types,
      fc.constantFrom("keep", "disable"),
      (start, own, others) => {
        const directory: Directory = new Map(
          Object.entries(start).map(([name, [text, mode, isLink]]) =>
            [name, { name, text, mode, isLink }] as const
          ),
        );
        const before = [...directory.values()];
        const wanted = parseWantedList(listText(["coil", ...own]));
        const plan = () => {
          const situation = examine([...directory.values()], NAME);
          const { list, isLossy } = planChain(wanted, situation);
          const json = withNote(list, wanted);
          const request = { directory: DIRECTORY, name: NAME, json, isLossy };
          return planConfig({ ...request, others }, situation);
        };
        for (const step of plan()) {
          const had = directory.has(NAME);
          play(directory, step);
          assert.ok(!had || directory.has(NAME), `gone after ${step.kind}`);
        }
        assert.deepEqual(plan(), [], "a second run finds nothing to do");
        const file = directory.get(NAME);
        assert.ok(file !== undefined);
        assert.equal(file.mode, 0o600);
        const result = typesOf(parseNetworkList(file.text));
        assert.equal(result[0], "coil");
        assert.ok(isWithin(own, result), `${own} is not in ${result}`);
        checkKept(before, directory);
      },
    ),
    { numRuns: 500 },
  );
});

/** Whether the one has the other's items in their order. */
function isWithin(inner: readonly string[], outer: readonly string[]): boolean {
  let found = 0;
  for (const item of outer) if (item === inner[found]) found++;
  return found === inner.length;
}

/** Every text that is not the installer's own is still there, under one name or another. */
function checkKept(
  before: readonly ConfigFile[],
  directory: Directory,
): void {
  const { own, earlier } = examine(before, NAME);
  const left = new Set([...directory.values()].map(({ text }) => text));
  for (const { name, text } of before) {
    const isOurs = (name === NAME && own?.kind === "ours") ||
      earlier.some((file) => file.name === name);
    // Making way again takes the place of what made way before.
    const isOverwritten = name === `${NAME}.coil-disabled`;
    if (isOurs || isOverwritten) continue;
    assert.ok(left.has(text), `${name} is lost: ${text}`);
  }
}
