import assert from "node:assert/strict";
import type { Condition, EgressStatus } from "../../../lib/api/mod.ts";
import { egressEvents } from "./events.ts";

function status(
  ...conditions: readonly (readonly [string, Condition["status"], string])[]
): EgressStatus {
  return {
    conditions: conditions.map(([type, value, reason]) => ({
      type,
      status: value,
      reason,
      message: `${type} ${reason}`,
      lastTransitionTime: "2026-01-02T03:04:05Z",
    })),
  };
}

function reasons(before: EgressStatus | undefined, after: EgressStatus) {
  return egressEvents(before, after).map((e) => `${e.type} ${e.reason}`);
}

Deno.test("egressEvents() says nothing of a new Egress that is not ready yet", () => {
  const after = status(
    ["Ready", "False", "NoGatewayAvailable"],
    ["Progressing", "True", "RollingOut"],
    ["Degraded", "False", "RollingOut"],
    ["CapacityLow", "Unknown", "NoReport"],
  );
  assert.deepEqual(reasons(undefined, after), []);
  assert.deepEqual(reasons(after, after), []);
});

Deno.test("egressEvents() reports when an Egress becomes ready, and when it stops being ready", () => {
  const is = status(["Ready", "True", "GatewayAvailable"]);
  const isNot = status(["Ready", "False", "NoGatewayAvailable"]);
  assert.deepEqual(reasons(isNot, is), ["Normal Ready"]);
  assert.deepEqual(reasons(is, isNot), ["Warning NotReady"]);
});

Deno.test("egressEvents() reports each new reason to be degraded, and the recovery", () => {
  const refused = status(["Degraded", "True", "DeploymentRefused"]);
  const taken = status(["Degraded", "True", "NameTaken"]);
  const fine = status(["Degraded", "False", "AsWanted"]);
  assert.deepEqual(reasons(undefined, refused), ["Warning DeploymentRefused"]);
  assert.deepEqual(reasons(refused, taken), ["Warning NameTaken"]);
  assert.deepEqual(reasons(taken, taken), []);
  assert.deepEqual(reasons(taken, fine), ["Normal Recovered"]);
});

Deno.test("egressEvents() reports that capacity is low, and when it is restored", () => {
  const low = status(["CapacityLow", "True", "ConntrackFull"]);
  const fine = status(["CapacityLow", "False", "Sufficient"]);
  assert.deepEqual(reasons(fine, low), ["Warning CapacityLow"]);
  assert.deepEqual(reasons(low, fine), ["Normal CapacityRestored"]);
});

Deno.test("egressEvents() reports clients with too many connections, once", () => {
  const limited = status(["ClientsLimited", "True", "TooManyConnections"]);
  assert.deepEqual(reasons(status(), limited), ["Warning ClientsLimited"]);
  assert.deepEqual(reasons(limited, limited), []);
  assert.deepEqual(reasons(limited, status()), []);
});

Deno.test("egressEvents() says nothing of capacity that was never short", () => {
  const fine = status(["CapacityLow", "False", "Sufficient"]);
  const unknown = status(["CapacityLow", "Unknown", "NoReport"]);
  assert.deepEqual(reasons(unknown, fine), []);
  assert.deepEqual(reasons(undefined, fine), []);
});

Deno.test("egressEvents() reports redundant destinations, once", () => {
  const twice = status(["RedundantDestinations", "True", "SameNetwork"]);
  assert.deepEqual(reasons(status(), twice), [
    "Warning RedundantDestinations",
  ]);
  assert.deepEqual(reasons(twice, twice), []);
  assert.deepEqual(reasons(twice, status()), []);
});

Deno.test("egressEvents() reports once that nodes translate sources", () => {
  const translated = status(["SourcesTranslated", "True", "NodeMasquerades"]);
  const events = ["Warning SourcesTranslated"];
  assert.deepEqual(reasons(status(), translated), events);
  assert.deepEqual(reasons(undefined, translated), events);
  assert.deepEqual(reasons(translated, translated), []);
  assert.deepEqual(reasons(translated, status()), []);
});
