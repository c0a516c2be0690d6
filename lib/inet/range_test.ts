import assert from "node:assert/strict";
import { Address } from "./address.ts";
import { AddressRange } from "./range.ts";

for (
  const [text, expected] of [
    ["10.2.0.5", "10.2.0.5"],
    ["10.2.0.5-10.2.0.9", "10.2.0.5-10.2.0.9"],
    ["10.2.0.9-10.2.0.5", "10.2.0.5-10.2.0.9"],
    ["10.2.0.5-10.2.0.5", "10.2.0.5"],
    ["10.2.0.5/30", "10.2.0.4-10.2.0.7"],
    ["10.2.0.5/32", "10.2.0.5"],
    ["fd02:0::5", "fd02::5"],
    ["fd02::ff-fd02::1:0", "fd02::ff-fd02::1:0"],
    ["fd02::/64", "fd02::-fd02::ffff:ffff:ffff:ffff"],
    ["::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
    ["", undefined],
    ["10.2.0", undefined],
    ["10.2.0.5-", undefined],
    ["-10.2.0.5", undefined],
    ["10.2.0.5 - 10.2.0.9", undefined],
    ["10.2.0.5-10.2.0.6-10.2.0.7", undefined],
    ["10.2.0.5-fd02::9", undefined],
    ["10.2.0.0/24-10.2.1.0/24", undefined],
    ["10.2.0.0/33", undefined],
  ] as const
) {
  Deno.test(`AddressRange.tryParse("${text}") is ${expected}`, () => {
    assert.equal(AddressRange.tryParse(text)?.toString(), expected);
  });
}

Deno.test("AddressRange.contains() has both ends, and one family", () => {
  const range = AddressRange.tryParse("10.2.0.5-10.2.0.9");
  const has = (text: string) => range?.contains(Address.parse(text));
  for (const inside of ["10.2.0.5", "10.2.0.7", "10.2.0.9"]) {
    assert.equal(has(inside), true, inside);
  }
  // The last has the same number as 10.2.0.5.
  for (const outside of ["10.2.0.4", "10.2.0.10", "::a02:5"]) {
    assert.equal(has(outside), false, outside);
  }
});
