import assert from "node:assert/strict";
import type { AddressEntry } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { planClient } from "../plan/plan.ts";
import { gatewayFor, requestFor } from "../testing.ts";
import { awaitsAddress, type Findings, wantedRoutes } from "./findings.ts";

const PLAN = planClient(requestFor([gatewayFor("a/a", ["0.0.0.0/0"])]));
const OWN = "10.1.2.3/32";

/** A pod with an address. */
function findingsOf(
  address: string,
  changes: Partial<AddressEntry>,
): Findings {
  const addresses = [addressEntry(3, address, changes)];
  const state = { links: [], rules: [], routes: [], addresses };
  return { interfaces: [], state } as Partial<Findings> as Findings;
}

Deno.test("wantedRoutes() has the pod's address as source where the pod may use it already", () => {
  const sourcesWith = (text: string, changes: Partial<AddressEntry>) => {
    const indexes = new Map(PLAN.tunnels.map(({ name }) => [name, 7]));
    return wantedRoutes(PLAN, findingsOf(text, changes), indexes)
      .filter(({ type }) => type === "unicast")
      .map(({ source }) => source?.toString());
  };
  assert.deepEqual(sourcesWith(OWN, {}), ["10.1.2.3"]);
  assert.deepEqual(sourcesWith(OWN, { tentative: true }), [undefined]);
  assert.deepEqual(sourcesWith("10.1.2.4/32", {}), [undefined]);
});

Deno.test("awaitsAddress() says that a route gets its source when the kernel has checked the address", () => {
  const awaits = (text: string, changes: Partial<AddressEntry>) =>
    awaitsAddress(PLAN, findingsOf(text, changes));
  assert.equal(awaits(OWN, { tentative: true }), true);
  assert.equal(awaits(OWN, {}), false);
  assert.equal(awaits("10.1.2.4/32", { tentative: true }), false);
  // It stays so.
  assert.equal(awaits(OWN, { tentative: true, dadFailed: true }), false);
});
