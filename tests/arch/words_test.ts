// Words that crept back into comments and documents. Each has a plainer one that
// also says who: "nobody waits" hides whether it is a call, a pod or an admin.
// Only prose is checked: not code, nor what documents quote from it.
import assert from "node:assert/strict";
import { ROOT } from "./pages.ts";

/** Words, and what to write. */
const PLAINER: Readonly<Record<string, string>> = {
  "anew": "again",
  "anybody": "any pod, any peer, any program: who is meant",
  "any more": "no longer",
  "everybody": "all pods, all peers: who is meant",
  "meanwhile": "until then, in the meantime",
  "nobody": "no pod, no call, no program: who is meant",
  "somebody": "another program, another node, an admin: who is meant",
  "tells": "returns, reports, says whether",
  "told": "is called with, gets, is given; reported, logged",
  "whatever": "any, all that, of any kind, also when: which case is meant",
  "whoever": "the program or the user that is meant",
};
const WORDS = new RegExp(
  `\\b(${Object.keys(PLAINER).join("|").replaceAll(" ", "\\s+")})\\b`,
  "gi",
);

const PLACES = ["lib", "roles", "deploy", "docs", "main.ts", "README.md"];
/** A comment on lines of its own, or behind code; not `https://`. */
const COMMENT = /\/\*[^]*?\*\/|(?<=^|\s)\/\/.*$/gm;
const CODE = /^( *)```[^]*?^\1```$|`[^`\n]*`/gm;
const READ: Readonly<Record<string, (text: string) => string>> = {
  c: comments,
  h: comments,
  md: (text) => text.replaceAll(CODE, ""),
  ts: comments,
  yaml: (text) => text.match(/(?<=^|\s)#.*$/gm)?.join("\n") ?? "",
};

function comments(text: string): string {
  return text.match(COMMENT)?.join("\n")
    .replaceAll(/^\s*(\*|\/\/)/gm, "").replaceAll(/`[^`\n]*`/g, "") ?? "";
}

async function* filesBelow(place: string): AsyncGenerator<string> {
  if ((await Deno.stat(ROOT + place)).isFile) return yield place;
  for await (const { name, isSymlink } of Deno.readDir(ROOT + place)) {
    if (!isSymlink) yield* filesBelow(`${place}/${name}`);
  }
}

function found(path: string, text: string): string[] {
  const read = READ[path.slice(path.lastIndexOf(".") + 1)];
  if (read === undefined || path.endsWith("_test.ts")) return [];
  return [...read(text).matchAll(WORDS)].map(([word]) => {
    const plain = word.toLowerCase().replaceAll(/\s+/g, " ");
    return `${path}: "${plain}": ${PLAINER[plain]}`;
  });
}

Deno.test("words: comments and documents say who is meant, in plain words", async () => {
  const all: string[] = [];
  for (const place of PLACES) {
    for await (const path of filesBelow(place)) {
      all.push(...found(path, await Deno.readTextFile(ROOT + path)));
    }
  }
  assert.deepEqual(all, []);
});

Deno.test("words: prose is found, and code is not", () => {
  const cases: readonly (readonly [string, string, number])[] = [
    ["a.ts", "/** Nobody\n * waits any\n * more. */\nf();\n", 2],
    ["a.ts", "f(); // tells why\n", 1],
    ["a.ts", 'const user = "nobody"; // `nobody` of Debian\n', 0],
    ["a.ts", "tells(); const nobody = `https://whoever`;\n", 0],
    ["a_test.ts", "// nobody\n", 0],
    ["a.c", "x(); // anew, whatever it is\n", 2],
    ["a.yaml", "user: nobody # meanwhile\n", 1],
    ["a.md", "Somebody ran `nobody`:\n\n```sh\nwhoever\n```\n", 1],
  ];
  for (const [path, text, count] of cases) {
    assert.equal(found(path, text).length, count, text);
  }
});
