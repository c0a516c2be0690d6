import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import { Address } from "../../inet/mod.ts";
import { familiesOf } from "./family.ts";

Deno.test("familiesOf() has each family once, and refuses an interface without any", () => {
  const addresses = ["fd00::1", "10.0.0.1", "10.0.0.2"].map(Address.parse);
  assert.deepEqual(familiesOf("net1", addresses), ["ipv4", "ipv6"]);
  assert.deepEqual(familiesOf("net1", addresses.slice(1)), ["ipv4"]);
  assert.throws(() => familiesOf("net1", []), CniError);
});
