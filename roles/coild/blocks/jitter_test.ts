import assert from "node:assert/strict";
import { fractionOf } from "./jitter.ts";

Deno.test("fractionOf() spreads texts evenly, and each always alike", () => {
  const all = Array.from({ length: 2_000 }, (_, n) => fractionOf(`node${n}`));
  assert.ok(all.every((fraction) => fraction >= 0 && fraction < 1));
  for (let tenth = 0; tenth < 10; tenth++) {
    const count = all.filter((f) => Math.floor(f * 10) === tenth).length;
    assert.ok(count > 140 && count < 260, `${count} in tenth ${tenth}`);
  }
  assert.equal(fractionOf("node7"), all[7]);
});
