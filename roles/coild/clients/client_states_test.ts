import assert from "node:assert/strict";
import type { ClientGateway } from "../../../lib/egress/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { byName } from "./client_state.ts";
import { ClientStates } from "./client_states.ts";

const KEYS = ["c1", "c2"].map((containerId) => ({
  containerId,
  ifname: "eth0",
}));

function gatewayAt(...addresses: readonly string[]): ClientGateway {
  return {
    name: "internet/nat",
    service: {},
    destinations: [],
    sourcePortAuto: false,
    senders: [],
    direct: addresses.map(Address.parse),
    available: [],
    failurePolicy: "Closed",
  };
}

Deno.test("ClientStates has the gateways that clients choose from now, as one list until something changes", () => {
  const [first, second] = KEYS;
  assert.ok(first && second);
  const states = new ClientStates();
  const gateways = () =>
    states.chosenFrom.flatMap(({ gateways }) => gateways.map(String));
  const set = (key: typeof first, ...addresses: readonly string[]) =>
    states.set(key, {
      kind: "unsettled",
      gateways: byName([gatewayAt(...addresses)]),
    });
  assert.deepEqual(gateways(), []);
  set(first, "10.1.2.1");
  set(second, "10.1.2.1", "10.1.2.2");
  assert.deepEqual(gateways(), ["10.1.2.1", "10.1.2.2"]);
  assert.equal(states.chosenFrom, states.chosenFrom);
  assert.equal(states.clients, 2);
  set(second, "10.1.2.1", "10.1.2.3");
  assert.deepEqual(gateways(), ["10.1.2.1", "10.1.2.3"]);
  states.delete(second);
  assert.deepEqual(gateways(), ["10.1.2.1"]);
  states.set(first, { kind: "none", isUnseen: false });
  assert.deepEqual([gateways(), states.clients], [[], 0]);
});
