import assert from "node:assert/strict";
import { applyChanges, stateOf } from "./state.ts";

Deno.test("applyChanges() sets, replaces and deletes entries", () => {
  const before = new Map<string, unknown>([["a", 1], ["b", 2]]);
  const after = applyChanges(before, { set: { b: 3, c: 4 }, gone: ["a"] });
  assert.deepEqual([...after], [["b", 3], ["c", 4]]);
  assert.deepEqual([...before], [["a", 1], ["b", 2]]);
});

Deno.test("stateOf() sorts entries by kind, blocks by pool and index", () => {
  const block = (name: string, pool: string, index: number) =>
    [`block/${name}`, { name, pool, index }] as const;
  const state = stateOf(
    new Map<string, unknown>([
      block("a-10", "a", 10),
      block("a-9", "a", 9),
      block("b-0", "b", 0),
      ["node/n2", { name: "n2" }],
      ["node/n1", { name: "n1" }],
      ["egress/nat/internet", { name: "nat/internet" }],
      ["pool/a", { row: { name: "a" } }],
    ]),
  );
  assert.equal(state.status, undefined);
  assert.deepEqual(state.contact, {});
  assert.deepEqual(
    ["a", "b", "c"].map((pool) =>
      state.blocks.get(pool)?.map(({ name }) => name)
    ),
    [["a-9", "a-10"], ["b-0"], undefined],
  );
  assert.deepEqual(state.nodes.map(({ name }) => name), ["n1", "n2"]);
  assert.deepEqual(state.egresses.map(({ name }) => name), ["nat/internet"]);
  assert.deepEqual(state.pools.map(({ row }) => row.name), ["a"]);
});
