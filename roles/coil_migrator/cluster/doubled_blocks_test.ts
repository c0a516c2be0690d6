import assert from "node:assert/strict";
import type { Block } from "../../../lib/api/mod.ts";
import { Prefix } from "../../../lib/inet/mod.ts";
import { doubledBlocks } from "./doubled_blocks.ts";

/** `NAME PREFIX`; those that end in v1 are reserved. */
function block(line: string): Block {
  const [name = "", text = ""] = line.split(" ");
  const prefix = Prefix.parse(text);
  return {
    name,
    node: "n1",
    uid: name,
    resourceVersion: "1",
    pool: "default",
    index: 0,
    deleting: false,
    finalized: false,
    prefixes: { [prefix.family]: prefix },
    reserved: name.endsWith("v1"),
  };
}

/** The names of the pairs. */
function pairs(lines: readonly string[]): string[] {
  const found = doubledBlocks(lines.map(block)).map((text) => {
    const [, given, reserved] =
      /^AddressBlock (\S+) of v2 .* has addresses of the reserved (\S+) /.exec(
        text,
      ) ?? [];
    return `${given} ${reserved}`;
  });
  const reversed = doubledBlocks(lines.toReversed().map(block));
  assert.equal(reversed.length, found.length, "in any order");
  return found;
}

Deno.test("doubledBlocks() finds the blocks of v2 that have addresses of reserved ones", () => {
  assert.deepEqual(pairs([]), []);
  assert.deepEqual(
    pairs([
      "a-0-v1 10.1.0.0/27",
      "a-0-10-v1 10.1.0.8/30",
      "a-1 10.1.0.32/27",
      "a-2-v1 10.1.0.64/27",
      "b-0 fd00::/123",
    ]),
    [],
    "side by side, and reserved ones in each other",
  );
  assert.deepEqual(pairs(["a-0 10.1.0.0/27", "a-0-v1 10.1.0.0/27"]), [
    "a-0 a-0-v1",
  ]);
  assert.deepEqual(
    pairs([
      "a-0 10.1.0.0/27",
      "a-0-x-v1 10.1.0.4/30",
      "a-0-y-v1 10.1.0.9/32",
      "a-1-v1 10.1.0.32/27",
      "a-1-z-v1 10.1.0.36/30",
      "a-9 10.1.0.44/30",
    ]),
    ["a-0 a-0-x-v1", "a-0 a-0-y-v1", "a-9 a-1-v1"],
    "in each other, either way",
  );
  assert.deepEqual(pairs(["b-0 fd00::/123", "b-0-v1 fd00::10/124"]), [
    "b-0 b-0-v1",
  ]);
});
