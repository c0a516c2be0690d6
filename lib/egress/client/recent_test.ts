import assert from "node:assert/strict";
import { Recent } from "./recent.ts";

Deno.test("Recent makes a thing once for a key, until there are more keys than it keeps", () => {
  const recent = new Recent<string>();
  const made: number[] = [];
  const use = (key: number) => {
    const make = () => {
      made.push(key);
      return `of ${key}`;
    };
    assert.equal(recent.of(`${key}`, make), `of ${key}`);
  };
  const kept = Array.from({ length: 32 }, (_, i) => i);
  for (const key of [...kept, ...kept]) use(key);
  assert.deepEqual(made, kept);
  for (const key of [32, 32, 0, 0]) use(key);
  assert.deepEqual(made.slice(32), [32, 0]);
});
