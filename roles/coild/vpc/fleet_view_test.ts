import assert from "node:assert/strict";
import { Address, FAMILIES } from "../../../lib/inet/mod.ts";
import type { Eni, Ownership } from "../../../lib/vpc/mod.ts";
import { fleetViewOf } from "./fleet_view.ts";

function eniOf(device: number | undefined, ownership: Ownership): Eni {
  const id = `eni-${device}`;
  const address = Address.parse("10.0.1.4");
  return {
    id,
    device,
    inImds: true,
    grants: [],
    ec2: { id, subnet: `subnet-${device}`, ownership, address, blocks: [] },
  };
}

Deno.test("fleetViewOf() has the ENIs that give addresses, and what the subnet of new ones refused", () => {
  const facts = {
    instance: { id: "i-1", type: "t3.small", region: "xx-1" },
    goal: {
      limits: { enis: 3, addressesPerEni: 4, prefixes: true },
      targets: {
        kind: "prefix" as const,
        warmEnis: 1,
        warmIps: 0,
        minIps: 0,
        warmPrefixes: 1,
        maxPods: Infinity,
      },
    },
    enis: [
      eniOf(0, "primary"),
      eniOf(1, "foreign"),
      eniOf(2, "owned"),
      eniOf(undefined, "owned"),
    ],
    pace: new Map([
      ["subnet-0 prefix", { until: 10, failures: 1, atMost: 1 }],
      ["subnet-2 address", { until: 10, failures: 1, atMost: 1 }],
    ]),
    unmet: undefined,
    isCordoned: false,
    families: FAMILIES,
    now: 0,
  };
  const view = fleetViewOf(facts);
  assert.deepEqual(view.enis.map(({ device }) => device), [0, 2]);
  assert.deepEqual([view.mode, view.maxEnis, view.capacity], [
    "prefix",
    3,
    144,
  ]);
  assert.equal(view.subnet, "subnet-0");
  assert.deepEqual(view.refused, ["prefix"]);
  const alone = fleetViewOf({ ...facts, families: ["ipv6"] });
  assert.equal(alone.capacity, 4_096);
});
