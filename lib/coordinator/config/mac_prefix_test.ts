import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { prefixedMac } from "./mac_prefix.ts";

Deno.test("prefixedMac() has the last four bytes of the address, zeros included", () => {
  const cases = [
    ["10.6.0.140", "0a:1b:0a:06:00:8c"],
    ["fd00:10:6::abcd:ef01", "0a:1b:ab:cd:ef:01"],
    ["64:ff9b::1", "0a:1b:00:00:00:01"],
  ];
  for (const [text = "", expected] of cases) {
    assert.equal(prefixedMac("0a:1b", Address.parse(text)), expected);
  }
});
