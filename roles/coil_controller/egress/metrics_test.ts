import assert from "node:assert/strict";
import type { Condition, Egress, EgressLoss } from "../../../lib/api/mod.ts";
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

Deno.test("coil_controller_egress_gateway_lost_nodes has each gateway, and how many nodes have lost it", async () => {
  const registry = createRegistry();
  const lostBy = (nodes: number): EgressLoss => ({
    address: "10.2.0.1",
    nodes,
    since: "2026-01-02T03:04:05Z",
    endedConnections: 7,
  });
  const first = { name: "nat-a", addresses: ["10.2.0.1"] };
  const second = { name: "nat-b", addresses: ["10.2.0.2"] };
  let gateways = [first, { ...second, losses: [lostBy(3)] }];
  const list = () => [
    { ...egress("nat", "True"), status: { gateways } },
    egress("new"),
  ];
  observeEgresses(registry, { list });
  const figures = async () =>
    (await registry.metrics()).split("\n")
      .filter((line) =>
        line.startsWith("coil_controller_egress_gateway_lost_nodes")
      );
  const line = (gateway: string, nodes: number) =>
    `coil_controller_egress_gateway_lost_nodes{egress_namespace="internet",egress="nat",gateway="${gateway}"} ${nodes}`;
  assert.deepEqual(await figures(), [line("nat-a", 3), line("nat-b", 0)]);
  gateways = [first, { ...second, losses: [lostBy(0)] }];
  assert.deepEqual(await figures(), [line("nat-a", 0), line("nat-b", 0)]);
  gateways = [second];
  assert.deepEqual(await figures(), [line("nat-b", 0)]);
});
