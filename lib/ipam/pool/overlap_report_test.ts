import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import { overlapReport } from "./overlap_report.ts";

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
});
