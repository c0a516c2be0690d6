import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import { type Block, poolOf } from "../../api/mod.ts";
import { overlapReport, poolOverlaps } from "./overlap_report.ts";

Deno.test("overlapReport() names the pools, the subnets and the blocks, each once", () => {
  const subnet = Prefix.parse("10.4.0.0/29");
  const { message } = overlapReport("a", {
    subnets: [
      { pool: "b", subnet },
      { pool: "a", subnet },
      { pool: "a", subnet },
    ],
    misplaced: ["v1-0"],
    taken: [],
  });
  assert.equal(
    message,
    '10.4.0.0/29 is in AddressPool "b" too; 10.4.0.0/29 is in the pool twice; ' +
      'AddressBlock "v1-0" has addresses of the pool, but not those of its index. ' +
      "Blocks whose addresses are used elsewhere are not allocated",
  );
});

Deno.test("overlapReport() of many says how many more there are", () => {
  const misplaced = Array.from({ length: 9 }, (_, i) => `b-${i}`);
  const { message } = overlapReport("a", { subnets: [], misplaced, taken: [] });
  assert.match(message, /"b-3".*index; 5 more\. Blocks whose/);
  const all = { subnets: [], misplaced: misplaced.slice(0, 4), taken: [] };
  assert.doesNotMatch(overlapReport("a", all).message, /more/);
});

Deno.test("poolOverlaps() tells blocks that are where their index says from others", () => {
  const pool = poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "a", uid: "u" },
    spec: { blockSizeBits: 3, subnets: [{ ipv4: "10.4.0.0/27" }] },
  });
  const blockOf = (name: string, index: number, ipv4: string): Block => ({
    name,
    pool: "a",
    index,
    prefixes: { ipv4: Prefix.parse(ipv4) },
    uid: name,
    resourceVersion: "1",
    node: "n1",
    reserved: false,
    deleting: false,
    finalized: true,
  });
  const usual = blockOf("a-0", 0, "10.4.0.0/29");
  assert.equal(poolOverlaps([pool], [usual]).size, 0);
  const odd = blockOf("v1-1", 1, "10.4.0.16/29");
  const { message } = poolOverlaps([pool], [usual, odd]).get("a") ?? {};
  assert.match(message ?? "", /^AddressBlock "v1-1" has addresses of the pool/);
  assert.doesNotMatch(message ?? "", /a-0/);
});
