import assert from "node:assert/strict";
import type {
  ClientGateway,
  GatewaySelection,
  SkippedDestination,
} from "../../../lib/egress/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { conditionsOf, endsOf } from "./conditions.ts";

const NET = Prefix.parse("192.0.2.0/24");
const IPV6_NET = Prefix.parse("2001:db8::/32");

function gateway(changes: Partial<ClientGateway> = {}): ClientGateway {
  return {
    name: "nat/a",
    service: { ipv4: Address.parse("10.96.0.9") },
    destinations: [NET],
    sourcePortAuto: false,
    senders: [],
    available: ["ipv4"],
    failurePolicy: "Closed",
    ...changes,
  };
}

function selection(changes: Partial<GatewaySelection> = {}): GatewaySelection {
  return {
    gateways: [gateway()],
    missing: [],
    invalid: [],
    targets: [],
    ...changes,
  };
}

const NOTHING = { shadowed: [], skipped: [] };

function reasons(
  changes: Partial<GatewaySelection>,
  plan: Partial<Parameters<typeof conditionsOf>[1]> = {},
): string[] {
  const conditions = conditionsOf(selection(changes), { ...NOTHING, ...plan });
  return conditions.map(({ reason, message }) => `${reason}: ${message}`);
}

Deno.test("conditionsOf() has nothing to say when all is well", () => {
  assert.deepEqual(reasons({}), []);
});

Deno.test("conditionsOf() tells of a missing object, and not that its gateway is unavailable", () => {
  const missing = [{ kind: "Egress", namespace: "nat", name: "a" }] as const;
  const gateways = [gateway({ available: [] })];
  const [one = "", ...others] = reasons({ gateways, missing });
  assert.match(one, /^EgressNotFound: Egress "nat\/a".*are rejected/);
  assert.deepEqual(others, []);
});

Deno.test("conditionsOf() says what becomes of packets, by the failure policy", () => {
  const texts = (["Closed", "Open"] as const).flatMap((failurePolicy) =>
    reasons({ gateways: [gateway({ available: [], failurePolicy })] })
  );
  assert.match(
    texts[0] ?? "",
    /^EgressUnavailable: .* are rejected until one is ready$/,
  );
  assert.match(texts[1] ?? "", /use other routes \(failurePolicy: Open\)/);
});

const DUAL = [gateway({ destinations: [NET, IPV6_NET] })];

function skip(
  destination: Prefix,
  changes: Partial<SkippedDestination> = {},
): SkippedDestination {
  const refused = false;
  return {
    gateway: "nat/a",
    destination,
    lacking: "service",
    refused,
    ...changes,
  };
}

Deno.test("conditionsOf() tells of a family without a gateway, as far as it concerns the pod", () => {
  const service = { ...gateway().service, ipv6: Address.parse("fd96::9") };
  const gateways = [gateway({ destinations: [NET, IPV6_NET], service })];
  assert.match(
    reasons({ gateways })[0] ?? "",
    /^EgressUnavailable: .* ready gateway in IPv6; .* its IPv6 destinations are rejected/,
  );
  const skipped = [skip(IPV6_NET, { lacking: "pod" })];
  assert.deepEqual(reasons({ gateways }, { skipped }), []);
  const none = gateways.map((each) => ({ ...each, available: [] }));
  for (const plan of [{}, { skipped }]) {
    assert.match(
      reasons({ gateways: none }, plan).join(),
      /^EgressUnavailable: .* ready gateway; .* its destinations are rejected until one is ready$/,
    );
  }
});

Deno.test("conditionsOf() tells of a family in common only when there is none", () => {
  const one = { skipped: [skip(IPV6_NET)] };
  assert.deepEqual(reasons({ gateways: DUAL }, one), []);
  const all = { skipped: [skip(NET), skip(IPV6_NET)] };
  assert.match(
    reasons({ gateways: DUAL }, all)[0] ?? "",
    /^EgressFamilyMismatch: .*IPv4 and IPv6, in which its Service has no/,
  );
});

Deno.test("conditionsOf() tells in any case of a family that is refused, and what to do", () => {
  const told = (...skipped: SkippedDestination[]) =>
    reasons({ gateways: DUAL }, { skipped });
  const refused = skip(IPV6_NET, { refused: true });
  const [message = "", ...others] = told(refused);
  assert.match(
    message,
    /^EgressFamilyMismatch: Egress "nat\/a" has IPv6 .* are rejected\. Give .* failurePolicy/,
  );
  assert.deepEqual(others, []);
  assert.deepEqual(told(skip(NET, { lacking: "pod" }), refused), [message]);
});

Deno.test("conditionsOf() names what is shadowed and what is invalid", () => {
  const shadowed = [{ gateway: "nat/b", destination: NET, by: "nat/a" }];
  const invalid = [{ gateway: "nat/a", text: "x" }];
  const texts = reasons({ invalid }, { shadowed });
  assert.match(texts[0] ?? "", /^EgressInvalid: .*"x"/);
  assert.match(texts[1] ?? "", /^EgressShadowed: .*"nat\/b".*"nat\/a"/);
});

Deno.test("endsOf() says that a gateway is ready, or nothing is refused, only of an Egress of which that is true", () => {
  const ends = (
    changes: Partial<GatewaySelection>,
    skipped: readonly SkippedDestination[] = [],
  ) => endsOf(selection(changes), { skipped }).map(({ id }) => id);
  assert.deepEqual(ends({}), ["unavailable nat/a", "refused nat/a"]);
  const down = [gateway({ available: [] })];
  assert.deepEqual(ends({ gateways: down }), ["refused nat/a"]);
  const missing = [{ kind: "Egress", namespace: "nat", name: "a" }] as const;
  assert.deepEqual(ends({ missing }), []);
  assert.deepEqual(ends({ gateways: [] }), []);
  const refused = [skip(IPV6_NET, { refused: true })];
  assert.deepEqual(ends({ gateways: DUAL }, refused), ["unavailable nat/a"]);
  assert.deepEqual(ends({ gateways: DUAL }), ["refused nat/a"]);
  // What another Egress refuses, and what this one leaves out without.
  const others = [
    ...refused.map((each) => ({ ...each, gateway: "nat/b" })),
    skip(IPV6_NET, { refused: false }),
  ];
  assert.ok(ends({ gateways: DUAL }, others).includes("refused nat/a"));
  // They are those of the conditions.
  const [unavailable] = conditionsOf(selection({ gateways: down }), NOTHING);
  assert.equal(unavailable?.id, ends({})[0]);
});
