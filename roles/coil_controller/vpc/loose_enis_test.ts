import assert from "node:assert/strict";
import { LooseEnis } from "./loose_enis.ts";

const options = { afterMs: 300 };

Deno.test("look() returns what had no instance for long enough", () => {
  const enis = new LooseEnis(options);
  assert.deepEqual(enis.look(["a"], 0), []);
  assert.deepEqual(enis.look(["a", "b"], 100), []);
  assert.deepEqual(enis.look(["a", "b"], 299), []);
  assert.deepEqual(enis.look(["a", "b"], 300), ["a"]);
  assert.deepEqual(enis.look(["a", "b"], 400), ["a", "b"]);
});

Deno.test("look() begins again with what had an instance in between", () => {
  const enis = new LooseEnis(options);
  enis.look(["a"], 0);
  enis.look([], 150);
  assert.deepEqual(enis.look(["a"], 300), []);
  assert.deepEqual(enis.look(["a"], 599), []);
  assert.deepEqual(enis.look(["a"], 600), ["a"]);
});

Deno.test("look() begins again after a time without looks", () => {
  const enis = new LooseEnis(options);
  enis.look(["a"], 0);
  assert.deepEqual(enis.look(["a"], 301), []);
  assert.deepEqual(enis.look(["a"], 601), ["a"]);
});

Deno.test("look() returns nothing at the first look, also without a delay", () => {
  assert.deepEqual(new LooseEnis({ afterMs: 0 }).look(["a"], 0), []);
});
