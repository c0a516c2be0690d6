import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import type { AllocationRecord } from "../../../lib/ipam/mod.ts";
import { QuarantineEvents } from "./quarantine_events.ts";

function recordOf(containerId: string, address: string): AllocationRecord {
  return {
    containerId,
    ifname: "eth0",
    pool: "vpc",
    addresses: { ipv4: Address.parse(address) },
    state: "quarantined",
    generation: 1,
    ageMs: 0,
  };
}

Deno.test("QuarantineEvents report a pod once for each time that its address is taken away", () => {
  const names = new Map([["10.0.1.5", "web"], ["10.0.1.6", "db"]]);
  const told: string[] = [];
  const events = new QuarantineEvents({
    pods: {
      withAddress: (address) => {
        const name = names.get(String(address));
        return name === undefined
          ? []
          : [{ metadata: { namespace: "team", name } }];
      },
    },
    events: {
      record: ({ namespace, name }, { type, reason, message }) =>
        void told.push(`${namespace}/${name} ${type} ${reason} ${message}`),
    },
  });
  const web = recordOf("c1", "10.0.1.5");
  const db = recordOf("c2", "10.0.1.6");
  const unknown = recordOf("c3", "10.0.1.7");
  events.report([web, unknown]);
  assert.deepEqual(told, [
    "team/web Warning AddressQuarantined the node no longer has this pod's address 10.0.1.5, so its packets may be lost; delete the pod to get another address",
  ]);
  names.set("10.0.1.7", "late");
  events.report([web, db, unknown]);
  events.report([web, db, unknown]);
  assert.deepEqual(told.map((text) => text.split(" ")[0]), [
    "team/web",
    "team/db",
    "team/late",
  ]);
  // It has come back, and went again.
  events.report([]);
  events.report([web]);
  assert.equal(told.length, 4);
});
