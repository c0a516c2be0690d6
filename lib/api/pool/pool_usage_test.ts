import assert from "node:assert/strict";
import type { AddressCounts } from "./address_pool.ts";
import { usageText } from "./pool_usage.ts";

function counts(total: string, used?: string): AddressCounts {
  return { total, allocated: "0", free: "0", ...(used && { used }) };
}

Deno.test("usageText() rounds down, writes long numbers short, and knows when it does not know", () => {
  for (
    const [total, used, expected] of [
      ["256", "6", "6/256 (2%)"],
      ["256", "255", "255/256 (99%)"],
      ["256", "256", "256/256 (100%)"],
      ["999999999", "0", "0/999999999 (0%)"],
      [(1n << 91n).toString(), "7", "7/2.5e27 (0%)"],
      ["0", "0", "0/0 (0%)"],
      ["256", undefined, undefined],
    ] as const
  ) {
    assert.equal(usageText({ ipv6: counts(total, used) }), expected);
  }
  const mixed = { ipv4: counts("256", "3"), ipv6: counts("16", "2") };
  assert.equal(usageText(mixed), "2/16 (12%)");
});
