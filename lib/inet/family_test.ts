import assert from "node:assert/strict";
import { mapDualStack, valuesOf } from "./mod.ts";

Deno.test("mapDualStack() leaves an absent family absent", () => {
  assert.deepEqual(mapDualStack({ ipv6: 3 }, (v, family) => `${family}${v}`), {
    ipv6: "ipv63",
  });
  assert.deepEqual(mapDualStack({}, () => 1), {});
});

Deno.test("valuesOf() gives IPv4 first", () => {
  assert.deepEqual(valuesOf({ ipv6: "b", ipv4: "a" }), ["a", "b"]);
  assert.deepEqual(valuesOf({ ipv6: 0 }), [0]);
});
