import assert from "node:assert/strict";
import { sum } from "./end_connections.ts";

Deno.test("sum() adds connections up, and keeps that the kernel cannot end any and that a program holds it up", () => {
  const some = { aborted: 2, forgotten: 3 };
  const unable = { aborted: undefined, forgotten: 1 };
  const held = Promise.resolve();
  assert.deepEqual(sum(some, some), { aborted: 4, forgotten: 6 });
  assert.deepEqual(sum(some, unable), { aborted: undefined, forgotten: 4 });
  assert.deepEqual(sum(unable, some), { aborted: undefined, forgotten: 4 });
  assert.equal(sum(some, { ...some, held }).held, held);
});
