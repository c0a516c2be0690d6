import assert from "node:assert/strict";
import { tunnelMtu } from "./tunnel_mtu.ts";

Deno.test("W41: tunnelMtu() leaves room for the outer headers", () => {
  assert.equal(tunnelMtu("ipv4", 1500), 1472);
  assert.equal(tunnelMtu("ipv6", 1500), 1452);
  assert.equal(tunnelMtu("ipv4", 9000), 8972);
});

Deno.test("tunnelMtu() never goes below what the family needs", () => {
  assert.equal(tunnelMtu("ipv6", 1300), 1280);
  assert.equal(tunnelMtu("ipv4", 68), 68);
});
