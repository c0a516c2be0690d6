import assert from "node:assert/strict";
import { type ClientGateway, planClient } from "../../../lib/egress/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { fillIn, unknownGateways } from "./unknown_egresses.ts";

function gateway(
  name: string,
  changes: Partial<ClientGateway> = {},
): ClientGateway {
  return {
    name,
    service: { ipv4: Address.parse("10.96.0.9") },
    destinations: [Prefix.parse("192.0.2.0/24")],
    sourcePortAuto: false,
    senders: [Address.parse("10.1.0.4")],
    available: ["ipv4"],
    failurePolicy: "Closed",
    ...changes,
  };
}

function known(...gateways: ClientGateway[]): Map<string, ClientGateway> {
  return new Map(gateways.map((each) => [each.name, each]));
}

const NONE = { gateways: [], missing: [], invalid: [], targets: [] };
const EGRESS = { kind: "Egress", namespace: "nat", name: "a" } as const;
const SERVICE = { ...EGRESS, kind: "Service" } as const;

Deno.test("fillIn() keeps a deleted Egress' destinations, as unavailable", () => {
  const before = known(gateway("nat/a"), gateway("nat/other"));
  const { gateways, unknown } = fillIn({ ...NONE, missing: [EGRESS] }, before);
  assert.deepEqual(gateways, [
    gateway("nat/a", { available: [], senders: [] }),
  ]);
  assert.deepEqual(unknown, []);
});

Deno.test("fillIn() keeps the families of a Service that is gone", () => {
  const now = gateway("nat/a", { service: {}, available: [] });
  const selection = { ...NONE, gateways: [now], missing: [SERVICE] };
  const { gateways } = fillIn(selection, known(gateway("nat/a")));
  assert.deepEqual(gateways, [gateway("nat/a", { available: [] })]);
  assert.deepEqual(fillIn(selection).gateways, [now]);
});

Deno.test("fillIn() says of which Egress nothing is known", () => {
  const { gateways, unknown } = fillIn({ ...NONE, missing: [EGRESS] });
  assert.deepEqual(gateways, []);
  assert.deepEqual(unknown, [{ namespace: "nat", name: "a" }]);
});

Deno.test("unknownGateways() go on refusing what no other Egress has", () => {
  const other = gateway("nat/z");
  const refused = ["192.0.2.0/24", "::/0", "198.51.100.0/24"];
  const gateways = unknownGateways(
    [EGRESS, { namespace: "nat", name: "b" }],
    { refused: refused.map((text) => Prefix.parse(text)), others: [other] },
  );
  const plan = planClient({
    addresses: {
      ipv4: Address.parse("10.0.0.1"),
      ipv6: Address.parse("fd02::1"),
    },
    ifname: "eth0",
    mtu: 1500,
    port: 5555,
    originatingOnly: false,
    gateways: [...gateways, other],
  });
  const routes = plan.routes.map(({ kind, destination }) =>
    `${kind} ${destination}`
  );
  assert.deepEqual(routes.sort(), [
    "tunnel 192.0.2.0/24",
    "unreachable 192.0.2.0/24",
    "unreachable 198.51.100.0/24",
    "unreachable ::/0",
  ]);
  assert.deepEqual(plan.shadowed, []);
});
