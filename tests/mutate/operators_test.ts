import assert from "node:assert/strict";
import { applyMutant, findMutants } from "./operators.ts";

/** Each text that one change makes of this one. */
function changesOf(text: string): string[] {
  return findMutants("a.ts", text).map((mutant) => applyMutant(text, mutant));
}

const CASES: readonly (readonly [text: string, ...changed: string[]])[] = [
  ["x = a === b;", "x = a !== b;"],
  ["x = a < b;", "x = a <= b;"],
  ["x = a >= b;", "x = a > b;"],
  // Of times, the limit itself does not matter.
  [
    "x = now - a >= LIMIT_MS;",
    "x = now - a < LIMIT_MS;",
    "x = now + a >= LIMIT_MS;",
  ],
  ["if (retryAt > this.#now()) b = 1;", "if (!(retryAt > this.#now())) b = 1;"],
  ["x = a && b;", "x = a || b;"],
  ["x = a ?? b;", "x = b;"],
  ["x = a + 1;", "x = a - 1;"],
  ["x = a * 2n;", "x = a / 2n;"],
  ["x -= 1;", "x += 1;"],
  ["x = true;", "x = false;"],
  ["x = !a;", "x = a;"],
  ["x = list.some(f);", "x = list.every(f);"],
  ["x = Math.min(a, b);", "x = Math.max(a, b);"],
  ['x = "text";', 'x = "";'],
  ['x = { a: "text" };', 'x = { a: "" };'],
  ["x = [a, b];", "x = [];"],
  ["save(a);", "{}"],
  ["await this.save(a);", "{}"],
  ["void save(a);", "{}"],
  ["if (a) b = 1;", "if (!(a)) b = 1;"],
  ["if (!a) b = 1;", "if (!(!a)) b = 1;"],
  ["if (a === b) c = 1;", "if (a !== b) c = 1;"],
  ["x = a ? b : c;", "x = !(a) ? b : c;"],
  ["while (a) b = 1;", "while (!(a)) b = 1;"],
  [
    "{ await a(); b(); }",
    "{ b(); await a(); }",
    "{ {} b(); }",
    "{ await a(); {} }",
  ],
  // Nothing that only people read, no types, no names.
  ['import a from "a.ts";'],
  ['export * from "a.ts";'],
  ['const a: "text" | undefined = b;'],
  ['throw new TypeError("text" + a);'],
  ['log.warn("text", { a: true });'],
  ['this.#log.info("text");'],
  ['this.#options.log.info("text");'],
  ['if (a) log.info("text");'],
  ['if (a) log.info("text"); else log.warn("text");'],
  [
    'if (a) log.info("text"); else b = 1;',
    'if (!(a)) log.info("text"); else b = 1;',
  ],
  ['requestLog.info("text");'],
  ['getLogger("name").info("text");'],
  ['log[a ? "warn" : "debug"]("text");'],
  ['const log = getLogger("name");'],
  [
    "if (a) { log.info(b); save(c); }",
    "if (!(a)) { log.info(b); save(c); }",
    "if (a) { log.info(b); {} }",
  ],
  ['tasks.run("name");', "{}"],
  ['this.#background.run("name");', "{}"],
  ['other.run("text");', "{}", 'other.run("");'],
  ['x = { help: "text" };'],
  ['class A extends Error { override readonly name = "A"; }'],
  ['x = { "a-b": c };'],
  ['x = "text" + a;', 'x = "" + a;'],
  ['x = a + "two words";'],
  ['x = "three small words";', 'x = "";'],
  ['x = f("Three words more");'],
  ['x = f("and so are five words");'],
  ['const BY_NODE = "node";'],
  ["[a, b] = c;"],
  ["class A extends B { constructor() { super(); } }"],
  ['class A extends Error { constructor() { super("text"); } }'],
  [
    'class A extends B { constructor() { super("text"); } }',
    'class A extends B { constructor() { super(""); } }',
  ],
];

for (const [text, ...changed] of CASES) {
  Deno.test(`findMutants() in: ${text}`, () => {
    assert.deepEqual(changesOf(text).sort(), changed.sort());
  });
}

Deno.test("findMutants() counts lines from 1", () => {
  const [mutant] = findMutants("a.ts", "const a = b;\n\nsave(a);\n");
  assert.equal(mutant?.line, 3);
});

Deno.test("findMutants() knows what a comment above explains", () => {
  const text = `
// mutate: nobody waits.
save(a);
save(b);
// A comment of another kind.
save(c);
x = {
  d: "text",
  // mutate: the default.
  e: "text",
};
// mutate: only of this condition, not of what it guards.
if (f) {
  save(g);
}
class A {
  /** Frees memory. */
  // mutate: nobody sees it.
  forget() {
    save(h);
  }
  async other() {
    // mutate: in any order.
    await save(i);
    await save(j);
  }
}
`;
  const explained = findMutants("a.ts", text).filter((one) => one.isExplained);
  assert.deepEqual(explained.map(({ line }) => line), [3, 10, 13, 20, 24, 24]);
});
