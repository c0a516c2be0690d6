import assert from "node:assert/strict";
import { poolNamesOf } from "./pool_choice.ts";

for (
  const [annotation, expected] of [
    [undefined, ["default"]],
    ["blue", ["blue"]],
    ["blue,green", ["blue", "green"]],
    [" blue , ,green,blue,", ["blue", "green"]],
    ["", [""]],
    [" , ", [" , "]],
    ["a,b,c,d,e,f,g,h,i", ["a", "b", "c", "d", "e", "f", "g", "h"]],
  ] as const
) {
  Deno.test(`poolNamesOf(${JSON.stringify(annotation)})`, () => {
    assert.deepEqual(poolNamesOf(annotation), expected);
  });
}
