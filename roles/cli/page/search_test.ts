import assert from "node:assert/strict";
import { isFound } from "./search.ts";
import { addressesAt, percent } from "./text.ts";

Deno.test("isFound() wants all words, in any case, in any of the texts", () => {
  assert.ok(isFound("", "x"));
  assert.ok(isFound("Web n1", "apps/web-1", undefined, "N1"));
  assert.ok(!isFound("web n2", "apps/web-1", "n1"));
  // What two texts make together is not in any of them.
  assert.ok(!isFound("1n1", "apps/web-1", "n1"));
});

Deno.test("addressesAt() has an address of each family of the block", () => {
  assert.deepEqual(
    addressesAt({ ipv4: "10.2.0.32/27", ipv6: "fd02::20/123" }, 9),
    ["10.2.0.41", "fd02::29"],
  );
  assert.deepEqual(addressesAt({ ipv6: "fd02::/123" }, 31), ["fd02::1f"]);
  assert.deepEqual(addressesAt({ ipv4: "nonsense" }, 0), []);
});

Deno.test("percent() of counts that numbers do not hold", () => {
  assert.equal(percent(1n, 8n), 12.5);
  assert.equal(percent(2n ** 79n, 2n ** 80n), 50);
  assert.equal(percent(0n, 0n), 0);
});
