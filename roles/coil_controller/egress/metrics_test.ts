import assert from "node:assert/strict";
import type { Condition, Egress } from "../../../lib/api/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { observeEgresses } from "./metrics.ts";

function egress(name: string, ready?: Condition["status"]): Egress {
  const conditions = ready === undefined ? [] : [{
    type: "Ready",
    status: ready,
    reason: "R",
    message: "",
    lastTransitionTime: "2026-01-02T03:04:05Z",
  }];
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: "internet", name },
    spec: { destinations: ["0.0.0.0/0"] },
    status: { conditions },
  };
}

Deno.test("coil_controller_egress_ready has each Egress that exists", async () => {
  const registry = createRegistry();
  let list = [egress("new"), egress("up", "True"), egress("down", "False")];
  observeEgresses(registry, { list: () => list });
  const figures = async () =>
    (await registry.metrics()).split("\n")
      .filter((line) => line.startsWith("coil_controller_egress_ready"))
      .map((line) => line.replace(/.*egress="(\w+)"\}/, "$1"));
  assert.deepEqual(await figures(), ["new 0", "up 1", "down 0"]);
  list = [egress("down", "True")];
  assert.deepEqual(await figures(), ["down 1"]);
});
