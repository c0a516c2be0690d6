// People read what an error says, not which class of the language it has:
// "TypeError: " before a message looks like a crash of the program.
import assert from "node:assert/strict";
import { describeError } from "../../lib/telemetry/mod.ts";
import { ROOT } from "./ranks.ts";
import { sources } from "./sources.ts";

/** Names that what is thrown has anywhere. */
const USUAL = ["cause", "err", "error", "thrown"];
/** Others that a file gives to it. */
const CAUGHT = /\bcatch \((\w+)|\.catch\(\((\w+)/g;
/** How far before its use it is asked whether it is an Error. */
const NEAR = 200;

/** Places where a text gets the class of an error in front of its message. */
function classesInTexts(source: string): string[] {
  const caught = [...source.matchAll(CAUGHT)]
    .flatMap(([, one, other]) => one ?? other ?? []);
  const names = new Set([...USUAL, ...caught]);
  return [...names].flatMap((name) => {
    const use = new RegExp(
      `\\$\\{${name}(\\.name)?\\}|\\bString\\(${name}\\)|\\b${name}\\.toString\\(`,
      "g",
    );
    return [...source.matchAll(use)].filter(({ 0: text, index }) => {
      const before = source.slice(Math.max(0, index - NEAR), index);
      // What is no Error has no class.
      const isOther = before.includes(`${name} instanceof Error`);
      return !text.startsWith("String(") || !isOther;
    }).map(([text]) => text);
  });
}

Deno.test("errors: no text has the class of an error before its message", async () => {
  const found: string[] = [];
  for (const dir of ["lib", "roles"]) {
    for await (const path of sources(dir)) {
      const source = await Deno.readTextFile(`${ROOT}${path}`);
      found.push(...classesInTexts(source).map((text) => `${path}: ${text}`));
    }
  }
  assert.deepEqual(found, []);
});

Deno.test("errors: lib/errors alone reads the message of anything thrown", async () => {
  const own = /\b(\w+) instanceof Error\s*\?\s*\1\.message\s*:/;
  const found: string[] = [];
  for (const dir of ["lib", "roles", "deploy"]) {
    for await (const path of sources(dir)) {
      if (own.test(await Deno.readTextFile(`${ROOT}${path}`))) found.push(path);
    }
  }
  assert.deepEqual(found, ["lib/errors/mod.ts"]);
});

Deno.test("errors: logs and statuses describe errors of each class by their message", () => {
  const classes = [Error, TypeError, RangeError, SyntaxError, ReferenceError];
  for (const ErrorClass of classes) {
    const inner = new ErrorClass("no such thing");
    for (
      const error of [
        inner,
        new ErrorClass("Cannot go on", { cause: inner }),
        new AggregateError([inner], "All failed"),
        new SuppressedError(inner, inner),
      ]
    ) {
      assert.doesNotMatch(describeError(error), /\w+Error\b/);
    }
    assert.equal(
      JSON.parse(JSON.stringify({ text: describeError(inner) })).text,
      "no such thing",
    );
  }
});

Deno.test("errors: what turns an error into text is found", () => {
  const found = (use: string) =>
    classesInTexts(`try { f(); } catch (error) { ${use} }`);
  assert.equal(found("say(`no: ${error}`);").length, 1);
  assert.equal(found("say(`no: ${error.name}`);").length, 1);
  assert.equal(found("say(String(error));").length, 1);
  assert.deepEqual(found("say(`no: ${error.message}`);"), []);
  assert.deepEqual(
    found("say(error instanceof Error ? error.message : String(error));"),
    [],
  );
});
