import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, FAMILIES, Prefix } from "../../inet/mod.ts";
import { formatClientPlan } from "../../../tests/lab/plan_text/egress_client.ts";
import { gatewayMark } from "./choice.ts";
import { type ClientPlan, planClient } from "./plan.ts";
import type {
  ClientGateway,
  ClientRequest,
  SkippedDestination,
} from "./request.ts";
import type { ClientInterface } from "./originating.ts";
import { gatewayFor, POD, requestFor } from "../testing.ts";

/** eth0 as coild makes it. */
const ETH0: ClientInterface = {
  index: 3,
  name: "eth0",
  addresses: [POD.ipv4, POD.ipv6],
  routes: {
    ipv4: [
      {
        family: "ipv4",
        destination: Prefix.parse("169.254.1.1/32"),
        index: 3,
        table: 254,
        protocol: 3,
        scope: "link",
        type: "unicast",
      },
      {
        family: "ipv4",
        destination: undefined,
        gateway: Address.parse("169.254.1.1"),
        index: 3,
        table: 254,
        protocol: 3,
        scope: "global",
        type: "unicast",
      },
    ],
    ipv6: [{
      family: "ipv6",
      destination: undefined,
      gateway: Address.parse("fe80::ff:fe00:1"),
      index: 3,
      table: 254,
      protocol: 3,
      scope: "global",
      metric: 1024,
      type: "unicast",
    }],
  },
};

const DESTINATIONS = ["0.0.0.0/0", "10.5.0.0/16", "::/0", "fd05::/32"];
const EVERYWHERE = gatewayFor("internet/egress", DESTINATIONS);
const OTHER = gatewayFor("shared/nat", ["0.0.0.0/0", "203.0.113.9/32"], {
  service: { ipv4: Address.parse("10.68.0.2") },
  sourcePortAuto: false,
  senders: [Address.parse("10.1.9.10")],
});

const PODS = ["10.1.9.9", "10.1.9.10", "fd02::99", "fd02::9a"]
  .map(Address.parse);
/** Three gateways take new connections; the first of IPv6 does not. */
const DIRECT: ClientGateway = {
  ...EVERYWHERE,
  senders: PODS,
  direct: PODS.toSpliced(2, 1),
};

/** What probing has found out: the first gateway does not answer. */
const LOST: Partial<ClientRequest> = {
  avoided: new Set(["10.1.9.9"]),
  lost: new Set(["10.1.9.9"]),
};

interface Golden {
  readonly gateways: readonly ClientGateway[];
  readonly changes?: Partial<ClientRequest>;
  readonly interfaces?: readonly ClientInterface[];
}

const GOLDEN: Readonly<Record<string, Golden>> = {
  client_dual: { gateways: [EVERYWHERE] },
  client_ipv4: {
    gateways: [EVERYWHERE],
    changes: { addresses: { ipv4: POD.ipv4 }, mtu: 1450 },
  },
  client_ipv6: {
    gateways: [EVERYWHERE],
    changes: { addresses: { ipv6: POD.ipv6 }, port: 5556 },
  },
  client_originating_only: {
    gateways: [EVERYWHERE],
    changes: { originatingOnly: true },
    interfaces: [ETH0],
  },
  client_unavailable: { gateways: [{ ...EVERYWHERE, available: [] }] },
  client_no_service: {
    gateways: [{ ...EVERYWHERE, service: {}, available: [], senders: [] }],
  },
  client_unavailable_ipv6: {
    gateways: [{ ...EVERYWHERE, available: ["ipv4"] }],
  },
  client_open: {
    gateways: [{ ...EVERYWHERE, failurePolicy: "Open" }],
  },
  client_open_unavailable: {
    gateways: [{ ...EVERYWHERE, failurePolicy: "Open", available: [] }],
  },
  client_direct: { gateways: [DIRECT] },
  client_direct_originating_only: {
    gateways: [{ ...DIRECT, destinations: [Prefix.parse("10.5.0.0/16")] }],
    changes: { originatingOnly: true },
    interfaces: [ETH0],
  },
  client_direct_lost: { gateways: [DIRECT], changes: LOST },
  client_direct_lost_kept: {
    gateways: [{ ...DIRECT, keepsLost: true }],
    changes: LOST,
  },
  client_direct_none_ready: { gateways: [{ ...DIRECT, direct: [] }] },
  client_two_gateways: { gateways: [OTHER, EVERYWHERE] },
  client_service_ipv4: {
    gateways: [
      { ...EVERYWHERE, service: { ipv4: Address.parse("10.68.12.49") } },
    ],
  },
};

for (
  const [name, { gateways, changes, interfaces }] of Object.entries(GOLDEN)
) {
  Deno.test(`planClient() plans ${name} as in the golden file`, async () => {
    const plan = planClient(requestFor(gateways, changes));
    await assertGolden(name, formatClientPlan(plan, interfaces));
  });
}

/** `<destination> <table> <kind>` of each route. */
function routesOf({ routes }: ClientPlan): string[] {
  return routes.map((route) =>
    `${route.destination} ${route.table} ${
      route.kind === "tunnel" ? route.tunnel : route.kind
    }`
  );
}

Deno.test("planClient() chooses from 64 gateways at most, the ready ones first", () => {
  const pods = Array.from(
    { length: 100 },
    (_, i) => Address.of("ipv4", BigInt(0x0a01_0900 + i)),
  );
  const ready = pods.slice(90);
  const gateway = { ...DIRECT, senders: pods, direct: ready };
  const { choices, ...direct } = planClient(requestFor([gateway]));
  const marks = (some: readonly Address[]) =>
    some.map(gatewayMark).toSorted((a, b) => a - b);
  assert.deepEqual(choices.map(({ ready, all }) => [ready, all.length]), [
    [marks(ready), 64],
    [[], 0],
  ]);
  // However many gateways: links, routes and rules stay the same.
  const { tunnels, rules } = planClient(
    requestFor([{ ...gateway, direct: undefined }]),
  );
  assert.deepEqual({ tunnels: direct.tunnels, rules: direct.rules }, {
    tunnels,
    rules,
  });
});

Deno.test("planClient() has near gateways, and those that answer, among the 64 that it chooses from", () => {
  const direct = Array.from(
    { length: 100 },
    (_, i) => Address.of("ipv4", BigInt(0x0a01_0900 + i)),
  );
  const texts = direct.map(String);
  const last = direct.slice(98).map(gatewayMark).toSorted((a, b) => a - b);
  const gateway = { ...DIRECT, senders: direct, direct };
  for (
    const [near, avoided] of [
      [texts.slice(98), []],
      [[], texts.slice(0, 98)],
    ] as const
  ) {
    const [choice] = planClient(
      requestFor([{ ...gateway, near: new Set(near) }], {
        avoided: new Set(avoided),
      }),
    ).choices;
    assert.deepEqual(choice?.ready, last);
    assert.equal(choice.all.length, 64);
  }
  const near = new Set(texts.slice(36));
  const [choice] = planClient(requestFor([{ ...gateway, near }])).choices;
  assert.equal(choice?.ready.length, 32);
  assert.ok(
    direct.slice(0, 32).every((each) =>
      choice.all.some((other) => other.equals(each))
    ),
    "connections stay where they are",
  );
});

Deno.test("planClient() weighs an Egress' gateways once for each family, however many destinations it has", () => {
  let looks = 0;
  const destinations = Array.from(
    { length: 50 },
    (_, i) => Prefix.parse(`198.51.${i}.0/24`),
  );
  const gateway: ClientGateway = {
    ...DIRECT,
    destinations: [...destinations, Prefix.parse("2001:db8::/32")],
    get near() {
      looks++;
      return new Set<string>();
    },
  };
  assert.equal(planClient(requestFor([gateway])).choices.length, 2);
  assert.equal(looks, 2);
});

Deno.test("planClient() gives no new connections to gateways that are avoided, while there are others", () => {
  const [a, b] = PODS;
  assert.ok(a && b);
  const ready = (...avoided: readonly Address[]) => {
    const changes = { avoided: new Set(avoided.map(String)) };
    const [choice] = planClient(requestFor([DIRECT], changes)).choices;
    assert.equal(choice?.all.length, 2);
    return choice.ready;
  };
  assert.deepEqual(ready(a), [gatewayMark(b)]);
  assert.deepEqual(ready(b), [gatewayMark(a)]);
  assert.deepEqual(ready(a, b), ready());
});

Deno.test("planClient() gives new connections to near gateways, while one of them answers", () => {
  const [a, b] = PODS;
  assert.ok(a && b);
  const ready = (...avoided: readonly Address[]) => {
    const near = { ...DIRECT, near: new Set([a.toString()]) };
    const changes = { avoided: new Set(avoided.map(String)) };
    const [choice] = planClient(requestFor([near], changes)).choices;
    assert.equal(choice?.all.length, 2, "connections stay where they are");
    return choice.ready;
  };
  assert.deepEqual(ready(), [gatewayMark(a)]);
  assert.deepEqual(ready(b), [gatewayMark(a)]);
  assert.deepEqual(ready(a), [gatewayMark(b)]);
  assert.equal(ready(a, b).length, 2);
});

Deno.test("planClient() without gateways plans nothing", () => {
  const plan = planClient(requestFor([], { originatingOnly: true }));
  assert.deepEqual(formatClientPlan(plan), "");
  assert.equal(plan.originatingOnly, false);
});

Deno.test("W30: planClient() gives a shared destination to the first by namespace and name, in any order", () => {
  // "-" sorts before "/": as one text, "a-b/z" would come before "a/z".
  const names = ["b/a", "a-b/z", "a/z", "a/y"];
  const gateways = names.map((name, i) =>
    gatewayFor(name, ["0.0.0.0/0"], {
      service: { ipv4: Address.of("ipv4", 10n + BigInt(i)) },
    })
  );
  for (const order of [gateways, gateways.toReversed()]) {
    const plan = planClient(requestFor(order));
    assert.deepEqual(plan.tunnels.map(({ gateway }) => gateway), ["a/y"]);
    assert.deepEqual(
      plan.shadowed.map(({ gateway, by }) => `${gateway} by ${by}`),
      ["a/z by a/y", "a-b/z by a/y", "b/a by a/y"],
    );
  }
});

Deno.test("planClient() leaves overlapping destinations to the longest match", () => {
  const plan = planClient(requestFor([
    gatewayFor("a/wide", ["203.0.0.0/16"], {
      service: { ipv4: Address.parse("10.68.0.1") },
    }),
    gatewayFor("b/narrow", ["203.0.113.0/24"], {
      service: { ipv4: Address.parse("10.68.0.2") },
    }),
  ]));
  assert.deepEqual(routesOf(plan), [
    "203.0.0.0/16 118 fou4_0a440001",
    "203.0.0.0/16 118 unreachable",
    "203.0.113.0/24 118 fou4_0a440002",
    "203.0.113.0/24 118 unreachable",
  ]);
  assert.deepEqual(plan.shadowed, []);
});

Deno.test("planClient() takes the same network twice, host bits and all, for one", () => {
  const plan = planClient(
    requestFor([gatewayFor("a/a", ["203.0.113.7/24", "203.0.113.0/24"])]),
  );
  assert.equal(plan.routes.length, 2);
  assert.deepEqual(plan.shadowed, []);
});

Deno.test("planClient() skips destinations of a family that the pod lacks", () => {
  const gateway = gatewayFor("a/a", DESTINATIONS);
  const { addresses: { ipv4 } } = requestFor([]);
  assert.ok(ipv4);
  const skippedBy = (addresses: ClientRequest["addresses"]) => {
    const plan = planClient(requestFor([gateway], { addresses }));
    return [plan.families.join(), ...plan.skipped.map(skippedText)];
  };
  assert.deepEqual(skippedBy({ ipv4 }), [
    ...["ipv4", "a/a ::/0 pod", "a/a fd05::/32 pod"],
  ]);
  assert.equal(skippedBy({}).length, 1 + DESTINATIONS.length);
});

function skippedText(
  { gateway, destination, lacking, refused }: SkippedDestination,
): string {
  return `${gateway} ${destination} ${lacking}${refused ? " refused" : ""}`;
}

/** A gateway whose Service has IPv4 alone. */
function ipv4Gateway(name: string, changes: Partial<ClientGateway> = {}) {
  const service = { ipv4: Address.parse("10.68.0.1") };
  return gatewayFor(name, ["192.0.2.0/24", "2001:db8::/32"], {
    service,
    ...changes,
  });
}

Deno.test("planClient() refuses what only the Service has no address for, by the failure policy", () => {
  const closed = planClient(requestFor([ipv4Gateway("a/a")]));
  assert.deepEqual(closed.families, ["ipv4", "ipv6"]);
  assert.deepEqual(closed.tunnelFamilies, ["ipv4"]);
  assert.deepEqual(routesOf(closed), [
    "192.0.2.0/24 118 fou4_0a440001",
    "192.0.2.0/24 118 unreachable",
    "2001:db8::/32 118 unreachable",
  ]);
  assert.deepEqual(closed.skipped.map(skippedText), [
    "a/a 2001:db8::/32 service refused",
  ]);
  const open = planClient(
    requestFor([ipv4Gateway("a/a", { failurePolicy: "Open" })]),
  );
  assert.deepEqual(open.families, ["ipv4"]);
  assert.deepEqual(open.skipped.map(skippedText), [
    "a/a 2001:db8::/32 service",
  ]);
});

Deno.test("planClient() leaves what a Service lacks the family for to any Egress that has it", () => {
  const lacking = [ipv4Gateway("a/a"), ipv4Gateway("c/c")];
  const able = gatewayFor("b/b", ["2001:db8::/32"]);
  const plan = planClient(requestFor([...lacking, able]));
  assert.deepEqual(routesOf(plan).filter((route) => route.includes(":")), [
    "2001:db8::/32 118 fou6_0a3cb378",
    "2001:db8::/32 118 unreachable",
  ]);
  assert.deepEqual(plan.skipped.map(skippedText), [
    "a/a 2001:db8::/32 service",
    "c/c 2001:db8::/32 service",
  ]);
  // Two that lack it refuse it once; one that would let it pass changes nothing.
  const open = ipv4Gateway("b/b", { failurePolicy: "Open" });
  const refusing = planClient(requestFor([...lacking, open]));
  assert.deepEqual(routesOf(refusing).filter((route) => route.includes(":")), [
    "2001:db8::/32 118 unreachable",
  ]);
  assert.deepEqual(refusing.skipped.map(skippedText), [
    "a/a 2001:db8::/32 service refused",
    "b/b 2001:db8::/32 service",
    "c/c 2001:db8::/32 service refused",
  ]);
});

const POLICIES: readonly (readonly [
  Pick<ClientGateway, "available" | "failurePolicy">,
  readonly string[],
])[] = [
  [{ available: FAMILIES, failurePolicy: "Closed" }, [
    "203.0.113.0/24 118 fou4_0a440c31",
    "203.0.113.0/24 118 unreachable",
  ]],
  [{ available: [], failurePolicy: "Closed" }, [
    "203.0.113.0/24 118 unreachable",
  ]],
  [{ available: FAMILIES, failurePolicy: "Open" }, [
    "203.0.113.0/24 118 fou4_0a440c31",
  ]],
  [{ available: [], failurePolicy: "Open" }, []],
];
for (const [state, expected] of POLICIES) {
  Deno.test(`planClient() routes for an Egress that is ${state.available.length > 0 ? "available" : "not available"}, and fails ${state.failurePolicy}`, () => {
    const plan = planClient(
      requestFor([gatewayFor("a/a", ["203.0.113.0/24"], state)]),
    );
    assert.deepEqual(routesOf(plan), expected);
    // The tunnel stays, so that nothing but a route is missing when the gateway is back.
    assert.equal(plan.tunnels.length, 1);
    assert.equal(plan.rules.length, 6);
  });
}

Deno.test("KN-12: planClient() takes the private networks, or the given ones in their place", () => {
  const rulesTo = (clusterPrefixes?: readonly string[]) =>
    planClient(requestFor([EVERYWHERE], {
      ...(clusterPrefixes === undefined
        ? {}
        : { clusterPrefixes: clusterPrefixes.map(Prefix.parse) }),
    })).rules.filter(({ priority }) => priority >= 2000 && priority < 2100)
      .map(({ priority, destination }) => `${priority} ${destination}`);
  assert.deepEqual(rulesTo(), [
    "2000 10.0.0.0/8",
    "2001 172.16.0.0/12",
    "2002 192.168.0.0/16",
    "2000 fc00::/7",
  ]);
  assert.deepEqual(
    rulesTo(["fd02::/16", "100.64.0.0/10", "fd03::/16", "10.0.0.0/9"]),
    [
      "2000 100.64.0.0/10",
      "2001 10.0.0.0/9",
      "2000 fd02::/16",
      "2001 fd03::/16",
    ],
  );
  assert.deepEqual(rulesTo([]), []);
});

Deno.test("planClient() puts destinations within the cluster's networks into the narrow table", () => {
  const gateway = gatewayFor("a/a", [
    "10.5.0.0/16",
    "100.64.3.0/24",
    "8.0.0.0/5",
  ]);
  const tables = (clusterPrefixes?: readonly Prefix[]) =>
    planClient(requestFor([gateway], {
      ...(clusterPrefixes === undefined ? {} : { clusterPrefixes }),
    })).routes.filter(({ kind }) => kind === "tunnel")
      .map(({ destination, table }) => `${destination} ${table}`);
  assert.deepEqual(tables(), [
    "10.5.0.0/16 117",
    "8.0.0.0/5 118",
    "100.64.3.0/24 118",
  ]);
  assert.deepEqual(tables([Prefix.parse("100.64.0.0/10")]), [
    "100.64.3.0/24 117",
    "8.0.0.0/5 118",
    "10.5.0.0/16 118",
  ]);
});

Deno.test("planClient() leaves the cluster's own networks alone where a destination is larger than they are", () => {
  const wider = ["10.0.0.0/7", "172.0.0.0/11", "192.168.0.0/15", "fc00::/6"];
  const whole = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];
  const tables = (destinations: readonly string[]) =>
    planClient(requestFor([gatewayFor("a/a", destinations)])).routes
      .filter(({ kind }) => kind === "tunnel")
      .map(({ destination, table }) => `${destination} ${table}`).toSorted();
  assert.deepEqual(tables(wider), wider.map((each) => `${each} 118`));
  assert.deepEqual(tables(whole), whole.map((each) => `${each} 117`));
});

Deno.test("planClient() keeps a gateway's cluster address out of the tunnels", () => {
  const service = { ipv4: Address.parse("100.64.0.10") };
  const plan = (destinations: string[]) =>
    routesOf(
      planClient(requestFor([gatewayFor("a/a", destinations, { service })])),
    );
  assert.deepEqual(plan(["0.0.0.0/0"]), [
    "0.0.0.0/0 118 fou4_6440000a",
    "0.0.0.0/0 118 unreachable",
    "100.64.0.10/32 118 throw",
  ]);
  // Even where somebody asks for just that.
  assert.deepEqual(plan(["100.64.0.10/32"]), [
    "100.64.0.10/32 118 throw",
    "100.64.0.10/32 118 unreachable",
  ]);
  // In a private network it meets the rule for that first, but for the narrow table.
  const inCluster = { service: { ipv4: Address.parse("10.96.0.10") } };
  const routes = routesOf(planClient(requestFor([
    gatewayFor("a/a", ["0.0.0.0/0", "10.0.0.0/8"], inCluster),
  ])));
  assert.deepEqual(routes.filter((route) => route.endsWith("throw")), [
    "10.96.0.10/32 117 throw",
  ]);
});

Deno.test("planClient() admits the pods and Services of all gateways, of families with tunnels", () => {
  const plan = planClient(requestFor([
    gatewayFor("a/a", ["0.0.0.0/0"]),
    gatewayFor("b/b", ["203.0.113.0/24"], {
      service: { ipv4: Address.parse("10.68.0.2") },
      available: [],
      senders: ["10.1.9.10", "10.1.9.9", "fd02::9"].map(Address.parse),
    }),
  ]));
  assert.deepEqual(plan.tunnelFamilies, ["ipv4"]);
  assert.deepEqual(plan.senders.map(String), [
    ...["10.1.9.9", "10.1.9.10", "10.68.0.2", "10.68.12.49"],
  ]);
});

Deno.test("planClient() refuses more networks than there are priorities", () => {
  const many = (count: number) =>
    Array.from(
      { length: count },
      (_, i) => Prefix.host(Address.of("ipv4", BigInt(i))),
    );
  const rules = planClient(
    requestFor([EVERYWHERE], { clusterPrefixes: many(100) }),
  ).rules;
  assert.equal(Math.max(...rules.map(({ priority }) => priority)), 2100);
  assert.throws(
    () => planClient(requestFor([EVERYWHERE], { clusterPrefixes: many(101) })),
    RangeError,
  );
});

Deno.test("planClient() makes one route for each destination, table and metric", () => {
  const prefix = fc.tuple(
    fc.nat(255),
    fc.constantFrom(0, 1, 5, 8, 16, 24, 32),
  ).map(([n, length]) => `${n}.${n}.0.9/${length}`);
  const gateway = fc.record({
    name: fc.constantFrom("a/a", "a/b", "b/a"),
    destinations: fc.array(prefix, { maxLength: 6 }),
    service: fc.nat(3),
    available: fc.subarray([...FAMILIES]),
    failurePolicy: fc.constantFrom("Closed" as const, "Open" as const),
  }).map(({ name, destinations, service, ...state }) =>
    gatewayFor(name, destinations, {
      ...state,
      service: { ipv4: Address.parse(`10.0.0.${service}`) },
    })
  );
  const gateways = fc.uniqueArray(gateway, {
    maxLength: 3,
    selector: ({ name }) => name,
  });
  fc.assert(fc.property(gateways, (some) => {
    const plan = planClient(requestFor(some));
    const slots = plan.routes.map(({ destination, table, kind }) =>
      `${destination} ${table} ${kind === "unreachable"}`
    );
    assert.equal(new Set(slots).size, slots.length);
    const tunnels = new Set(plan.tunnels.map(({ name }) => name));
    for (const route of plan.routes) {
      if (route.kind === "tunnel") assert.ok(tunnels.has(route.tunnel));
    }
    // Nothing is lost: each destination has an owner, or is reported.
    const wanted = some.flatMap(({ name, destinations }) =>
      [...new Set(destinations.map(String))].map((to) => `${name} ${to}`)
    );
    const reported = plan.shadowed.map(({ gateway, destination }) =>
      `${gateway} ${destination}`
    );
    const owned = wanted.filter((each) => !reported.includes(each));
    const destinations = owned.map((each) => each.split(" ")[1]);
    assert.equal(new Set(destinations).size, destinations.length);
  }));
});

/** COIL_UPDATE_GOLDEN=1 rewrites the files, to be read in the diff. */
async function assertGolden(name: string, text: string): Promise<void> {
  const file = new URL(
    `../../../tests/golden/egress/${name}.txt`,
    import.meta.url,
  );
  if (Deno.env.get("COIL_UPDATE_GOLDEN") === "1") {
    await Deno.writeTextFile(file, text);
  }
  assert.equal(text, await Deno.readTextFile(file));
}
