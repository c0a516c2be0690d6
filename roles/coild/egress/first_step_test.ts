import assert from "node:assert/strict";
import { type ClientGateway, planClient } from "../../../lib/egress/mod.ts";
import { gatewayFor, requestFor } from "../../../lib/egress/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { byName, planText } from "../clients/client_state.ts";
import { firstStep } from "./first_step.ts";

const [A, B, C] = ["10.1.9.1", "10.1.9.2", "10.1.9.3"].map(Address.parse) as [
  ...[Address, Address, Address],
];

function choosing(direct: readonly Address[], changes = {}): ClientGateway {
  const destinations = ["192.0.2.0/24"];
  const senders = [A, B, C];
  return gatewayFor("nat/a", destinations, { direct, senders, ...changes });
}

function planOf(gateway: ClientGateway, avoided: Iterable<string> = []) {
  return planClient(requestFor([gateway], { avoided: new Set(avoided) }));
}

/** The first step of a pod that has one gateway object, to another one: which gateways are ready after it, and which are known. */
function step(
  before: ClientGateway,
  next: ClientGateway,
  { avoided = [], endsGone = false }: {
    readonly avoided?: readonly Address[];
    readonly endsGone?: boolean;
  } = {},
) {
  const found = firstStep({
    kind: "client",
    gateways: byName([before]),
    plan: planText(planOf(before)),
    isVisible: true,
  }, {
    plan: planOf(next, avoided.map(String)),
    gateways: [next],
    endsGone,
    planWithout: (left) => planOf(before, left),
  });
  const [choice] = found?.plan.choices ?? [];
  return found === undefined ? undefined : {
    ready: choice?.ready.length,
    known: found.gateways.get("nat/a"),
  };
}

Deno.test("firstStep() is all of an update that changes the ready gateways alone", () => {
  const gateway = choosing([A, B, C]);
  assert.deepEqual(step(gateway, gateway, { avoided: [A] }), {
    ready: 2,
    known: gateway,
  });
  const fewer = choosing([B, C]);
  assert.deepEqual(step(gateway, fewer), { ready: 2, known: fewer });
  const kept = { ready: 2, known: gateway };
  assert.deepEqual(step(gateway, fewer, { endsGone: true }), kept);
});

Deno.test("firstStep() leaves gateways before the rest of an update is done", () => {
  const before = choosing([A, B]);
  const next = choosing([B], { destinations: [] });
  assert.deepEqual(step(before, next), { ready: 1, known: before });
});

Deno.test("firstStep() is nothing where no gateway is left", () => {
  const before = choosing([A, B]);
  assert.equal(step(before, before), undefined);
  assert.equal(step(before, choosing([A, B], { destinations: [] })), undefined);
});
