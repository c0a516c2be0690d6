// What is well formed is decided here; another library has to agree.
import assert from "node:assert/strict";
import fc from "fast-check";
import { Validator } from "ip-num";
import { parseText } from "./text.ts";

const number = (max: number) => fc.integer({ min: 0, max });
const word = number(0xffff).map((value) => value.toString(16));
const quad = fc.array(number(300), { minLength: 3, maxLength: 5 })
  .map((octets) => octets.join("."));
/** Six to nine words, the last of them dotted or not, shortened or not. */
const words = fc.tuple(
  fc.array(word, { maxLength: 9 }),
  fc.option(quad),
  fc.option(number(9)),
).map(([front, last, gap]) => {
  const parts = last === null ? front : [...front, last];
  if (gap === null) return parts.join(":");
  return `${parts.slice(0, gap).join(":")}::${parts.slice(gap).join(":")}`;
});
const pieces = fc.array(
  fc.constantFrom(
    ..."0 1 9f F 255 256 00 01 ffff 10000 : :: . 1.2.3.4 - g 0x1"
      .split(" "),
    " ",
    "\n",
  ),
  { maxLength: 12 },
).map((found) => found.join(""));

Deno.test("parseText() takes what ip-num takes, but for zone identifiers", () => {
  let taken = 0;
  fc.assert(
    fc.property(fc.oneof(quad, words, pieces), (text) => {
      const [isValid] = text.includes(":")
        ? Validator.isValidIPv6String(text)
        : Validator.isValidIPv4String(text);
      assert.equal(parseText(text) !== undefined, isValid, text);
      if (isValid) taken++;
    }),
    { numRuns: 5_000 },
  );
  assert.ok(taken > 100, `${taken} taken`);
});
