import assert from "node:assert/strict";
import { Address } from "./address.ts";
import { distinct } from "./distinct.ts";
import { Prefix } from "./prefix.ts";

Deno.test("distinct() keeps the first of each, in order", () => {
  const texts = ["10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2", "fd00:0::1"];
  assert.deepEqual(
    distinct(texts.map(Address.parse)).map(String),
    ["10.0.0.2", "fd00::1", "10.0.0.1"],
  );
  const prefixes = ["10.0.0.0/8", "10.0.0.0/9", "10.0.0.0/8"];
  assert.deepEqual(
    distinct(prefixes.map(Prefix.parse)).map(String),
    ["10.0.0.0/8", "10.0.0.0/9"],
  );
});
