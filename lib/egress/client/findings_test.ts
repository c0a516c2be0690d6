import assert from "node:assert/strict";
import { addressEntry } from "../../netlink/testing.ts";
import { planClient } from "../plan/plan.ts";
import { gatewayFor, requestFor } from "../testing.ts";
import { type Findings, wantedRoutes } from "./findings.ts";

Deno.test("wantedRoutes() has the pod's address as source where the pod may use it already", () => {
  const plan = planClient(requestFor([gatewayFor("a/a", ["0.0.0.0/0"])]));
  const sourcesWith = (text: string, tentative: boolean) => {
    const entry = addressEntry(3, text);
    const addresses = [{ ...entry, tentative }];
    const state = { links: [], rules: [], routes: [], addresses };
    const findings = { interfaces: [], state } as Partial<Findings> as Findings;
    const indexes = new Map(plan.tunnels.map(({ name }) => [name, 7]));
    return wantedRoutes(plan, findings, indexes)
      .filter(({ type }) => type === "unicast")
      .map(({ source }) => source?.toString());
  };
  assert.deepEqual(sourcesWith("10.1.2.3/32", false), ["10.1.2.3"]);
  assert.deepEqual(sourcesWith("10.1.2.3/32", true), [undefined]);
  assert.deepEqual(sourcesWith("10.1.2.4/32", false), [undefined]);
});
