import assert from "node:assert/strict";
import type { Egress } from "../../api/mod.ts";
import { planClient } from "../plan/plan.ts";
import { Address } from "../../inet/mod.ts";
import type { V1EndpointSlice, V1Service } from "../../kube/mod.ts";
import {
  type EgressFacts,
  egressRefsOf,
  namesEgress,
  selectGateways,
} from "./selection.ts";
import { nameText } from "../../names/mod.ts";
import {
  transformEgress,
  transformService,
  transformSlice,
} from "./objects.ts";

const PREFIX = "egress.coil.cybozu.com/";

function egress(
  name: string,
  spec: Partial<Egress["spec"]> = {},
  status: Egress["status"] = {},
): Egress {
  return transformEgress({
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { name, namespace: "nat", uid: "u", generation: 1 },
    spec: { destinations: ["0.0.0.0/0", "::/0"], ...spec },
    status,
  });
}

function service(...clusterIPs: string[]): V1Service {
  return transformService({
    metadata: { name: "a", namespace: "nat", uid: "s", resourceVersion: "1" },
    spec: { clusterIP: clusterIPs[0] ?? "None", clusterIPs },
  });
}

interface EndpointText {
  readonly at: string;
  readonly pod?: string;
  readonly uid?: string;
  /** Of the conditions ready, serving, terminating: `r`, `s`, `t` when true, `-` when false, `?` when absent. */
  readonly is?: string;
  /** `node:<name>` and `zone:<name>` of its hints. */
  readonly hints?: readonly string[];
}

function hintsOf(texts: readonly string[]) {
  const of = (kind: string) =>
    texts.filter((text) => text.startsWith(`${kind}:`))
      .map((text) => ({ name: text.slice(kind.length + 1) }));
  return { forNodes: of("node"), forZones: of("zone") };
}

function slice(
  addressType: "IPv4" | "IPv6",
  ...endpoints: EndpointText[]
): V1EndpointSlice {
  const flag = (text: string | undefined) =>
    text === undefined || text === "?" ? undefined : text !== "-";
  return transformSlice({
    metadata: { labels: { "kubernetes.io/service-name": "a" } },
    addressType,
    endpoints: endpoints.map(({ at, pod, uid, hints, is = "rs-" }) => {
      const [ready, serving, terminating] = [...is].map(flag);
      return {
        addresses: [at],
        conditions: {
          ...(ready !== undefined && { ready }),
          ...(serving !== undefined && { serving }),
          ...(terminating !== undefined && { terminating }),
        },
        ...(hints !== undefined && { hints: hintsOf(hints) }),
        ...(pod !== undefined && {
          targetRef: { kind: "Pod", name: pod, ...(uid && { uid }) },
        }),
      };
    }),
  });
}

/** Selects with the facts of `nat/a`. */
function select(facts: Partial<EgressFacts>) {
  return selectGateways(
    [{ namespace: "nat", name: "a" }],
    () => ({ egress: undefined, service: undefined, slices: [], ...facts }),
  );
}

Deno.test("egressRefsOf() gives each Egress once, by namespace and name", () => {
  const refs = egressRefsOf({
    [`${PREFIX}z`]: "b, a ,,b",
    "other.example/x": "y",
    [`${PREFIX}c`]: " d",
  });
  assert.deepEqual(refs.map(nameText), ["c/d", "z/a", "z/b"]);
  assert.deepEqual(egressRefsOf(undefined), []);
});

Deno.test("namesEgress() counts names that no Egress can have, and no other annotations", () => {
  assert.equal(namesEgress({ [`${PREFIX}nat`]: "Not A Name" }), true);
  assert.equal(namesEgress({ "other.example/x": "y" }), false);
  assert.equal(namesEgress(undefined), false);
});

Deno.test("selectGateways() keeps lost connections where the Egress does, and ends them by default", () => {
  const keepsLost = (spec: Partial<Egress["spec"]>) =>
    select({ egress: egress("a", spec), service: service("::1"), slices: [] })
      .gateways.map((gateway) => gateway.keepsLost);
  assert.deepEqual(keepsLost({ lostConnections: "Keep" }), [true]);
  assert.deepEqual(keepsLost({ lostConnections: "End" }), [undefined]);
  assert.deepEqual(keepsLost({}), [undefined]);
});

Deno.test("selectGateways() makes a gateway of an Egress, its Service and its endpoints", () => {
  const { gateways, missing, invalid, targets } = select({
    egress: egress("a", { fouSourcePortAuto: true, failurePolicy: "Open" }),
    service: service("10.96.0.9", "fd00:96::9"),
    slices: [
      slice("IPv4", { at: "10.1.0.4", pod: "p1" }),
      slice("IPv6", { at: "fd01::4", pod: "p1" }),
    ],
  });
  assert.equal(
    JSON.stringify(gateways),
    JSON.stringify([{
      name: "nat/a",
      service: { ipv4: "10.96.0.9", ipv6: "fd00:96::9" },
      destinations: ["0.0.0.0/0", "::/0"],
      sourcePortAuto: true,
      senders: ["10.1.0.4", "fd01::4"],
      available: ["ipv4", "ipv6"],
      failurePolicy: "Open",
    }]),
  );
  assert.deepEqual([missing, invalid], [[], []]);
  assert.deepEqual(targets.map(({ address }) => `${address}`), ["10.1.0.4"]);
});

Deno.test("selectGateways() lets clients choose from the ready gateways, or those that end, and knows all", () => {
  const directOf = (
    spec: Partial<Egress["spec"]>,
    ...slices: V1EndpointSlice[]
  ) =>
    select({ egress: egress("a", spec), service: service("::1"), slices })
      .gateways.map(({ direct, senders }) => [direct?.join(), senders.join()]);
  const direct = { gatewaySelection: "Direct" } as const;
  const slices = [
    slice("IPv4", { at: "10.1.0.4" }, { at: "10.1.0.5", is: "-st" }),
    slice("IPv6", { at: "fd01::5", is: "-st" }),
    slice("IPv4", { at: "10.1.0.6", is: "---" }),
  ];
  const all = "10.1.0.4,10.1.0.5,fd01::5,10.1.0.6";
  assert.deepEqual(directOf(direct, ...slices), [["10.1.0.4,fd01::5", all]]);
  assert.deepEqual(directOf({}, ...slices), [[undefined, all]]);
  assert.deepEqual(directOf(direct), [["", ""]]);
});

for (
  const [what, hints, near] of [
    [
      "of the node first",
      [["node:n1"], ["zone:a", "node:n2"], ["zone:a"]],
      "4",
    ],
    ["of the zone", [["zone:b"], ["zone:a"], ["node:n2", "zone:a"]], "5,6"],
    ["of no other node and zone", [["zone:b"], ["node:n2"], []], ""],
  ] as const
) {
  Deno.test(`selectGateways() prefers gateways ${what}`, () => {
    const slices = [slice(
      "IPv4",
      ...hints.map((each, i) => ({ at: `10.1.0.${i + 4}`, hints: each })),
    )];
    const nearOf = (spec: Partial<Egress["spec"]>, zone?: string) =>
      selectGateways(
        [{ namespace: "nat", name: "a" }],
        () => ({ egress: egress("a", spec), service: service("::1"), slices }),
        { place: { node: "n1", zone } },
      ).gateways.map((each) =>
        each.near && [...each.near].map((text) => text.slice(-1)).join()
      );
    const direct = { gatewaySelection: "Direct" } as const;
    assert.deepEqual(nearOf(direct, "a"), [near]);
    assert.deepEqual(nearOf(direct), [near === "4" ? "4" : ""], "no zone");
    assert.deepEqual(nearOf({}, "a"), [undefined], "the Service chooses");
  });
}

Deno.test("selectGateways() refuses by default, from the port", () => {
  const { gateways } = select({ egress: egress("a"), service: service("::1") });
  assert.equal(gateways[0]?.failurePolicy, "Closed");
  assert.equal(gateways[0]?.sourcePortAuto, false);
});

Deno.test("SV-10: no Egress, and an Egress without Service, are missing", () => {
  const nothing = select({});
  assert.deepEqual(nothing.missing, [
    { kind: "Egress", namespace: "nat", name: "a" },
  ]);
  assert.deepEqual(nothing.gateways, []);
  const half = select({
    egress: egress("a"),
    slices: [slice("IPv4", { at: "10.1.0.4" })],
  });
  assert.deepEqual(half.missing, [
    { kind: "Service", namespace: "nat", name: "a" },
  ]);
  assert.deepEqual(
    half.gateways.map(({ service, available }) => ({ service, available })),
    [{ service: {}, available: [] }],
  );
  assert.deepEqual(half.targets, []);
});

Deno.test("SV-10: of destinations of both families behind an IPv4 Service only those of IPv4 have a tunnel, the others are refused", () => {
  const { gateways } = select({
    egress: egress("a"),
    service: service("10.96.0.9"),
    slices: [slice("IPv4", { at: "10.1.0.4" })],
  });
  const { tunnels, skipped } = planClient({
    addresses: {
      ipv4: Address.parse("10.0.0.1"),
      ipv6: Address.parse("fd02::1"),
    },
    ifname: "eth0",
    mtu: 1500,
    port: 5555,
    gateways,
    originatingOnly: false,
  });
  assert.deepEqual(tunnels.map(({ family }) => family), ["ipv4"]);
  assert.deepEqual(
    skipped.map(({ destination, refused }) => [`${destination}`, refused]),
    [["::/0", true]],
  );
});

for (
  const [what, endpoints, available, targets] of [
    ["no endpoint", [], false, []],
    ["a ready one", [{ at: "10.1.0.4" }], true, ["10.1.0.4"]],
    ["one that starts", [{ at: "10.1.0.4", is: "---" }], false, []],
    ["one of unknown state", [{ at: "10.1.0.4", is: "???" }], true, [
      "10.1.0.4",
    ]],
    ["one that ends and serves", [{ at: "10.1.0.4", is: "-st" }], true, [
      "10.1.0.4",
    ]],
    ["one that ends", [{ at: "10.1.0.4", is: "--t" }], false, []],
    ["an old API's ready one", [{ at: "10.1.0.4", is: "r??" }], true, [
      "10.1.0.4",
    ]],
    [
      "one ready, one not",
      [
        { at: "10.1.0.4", is: "---" },
        { at: "10.1.0.5" },
      ],
      true,
      ["10.1.0.5"],
    ],
  ] as const
) {
  Deno.test(`selectGateways() with ${what}: ${available ? "available" : "not available"}`, () => {
    const selection = select({
      egress: egress("a"),
      service: service("10.96.0.9"),
      slices: [slice("IPv4", ...endpoints)],
    });
    assert.deepEqual(
      selection.gateways[0]?.available,
      available ? ["ipv4"] : [],
    );
    assert.deepEqual(
      selection.targets.map(({ address }) => `${address}`),
      targets,
    );
    // An endpoint that ends or starts may still answer for a flow.
    assert.deepEqual(
      selection.gateways[0]?.senders.map(String),
      endpoints.map(({ at }) => at),
    );
  });
}

Deno.test("selectGateways() goes by the gateways of each family", () => {
  const slices = [
    slice("IPv4", { at: "10.1.0.4", pod: "p1" }),
    slice("IPv6", { at: "fd01::4", pod: "p1", is: "---" }),
  ];
  const { gateways } = select({
    egress: egress("a"),
    slices,
    service: service("10.96.0.9", "fd00:96::9"),
  });
  assert.deepEqual(gateways[0]?.available, ["ipv4"]);
});

Deno.test("selectGateways() tells each gateway pod once, by the primary family", () => {
  const slices = [
    slice("IPv4", { at: "10.1.0.4", pod: "p1" }, { at: "10.1.0.5", pod: "p2" }),
    slice("IPv6", { at: "fd01::4", pod: "p1" }, { at: "fd01::6", pod: "p3" }),
  ];
  const texts = (...clusterIPs: string[]) =>
    select({ egress: egress("a"), service: service(...clusterIPs), slices })
      .targets.map(({ address }) => `${address}`);
  assert.deepEqual(texts("10.96.0.9", "fd00:96::9"), [
    "10.1.0.4",
    "10.1.0.5",
    "fd01::6",
  ]);
  assert.deepEqual(texts("fd00:96::9", "10.96.0.9"), [
    "fd01::4",
    "10.1.0.5",
    "fd01::6",
  ]);
});

Deno.test("selectGateways() names destinations that are none and goes on with the others", () => {
  const { gateways, invalid } = select({
    egress: egress("a", { destinations: ["192.0.2.0/24", "192.0.2.1", "x"] }),
    service: service("10.96.0.9"),
  });
  assert.deepEqual(gateways[0]?.destinations.map(String), ["192.0.2.0/24"]);
  assert.deepEqual(invalid.map(({ text }) => text), ["192.0.2.1", "x"]);
});

Deno.test("selectGateways() takes a headless Service for one without addresses", () => {
  const { gateways } = select({
    egress: egress("a"),
    service: service("None"),
  });
  assert.deepEqual(gateways[0]?.service, {});
});

Deno.test("transformSlice() keeps the label with the Service's name, and no other", () => {
  const labels = { "kubernetes.io/service-name": "a", other: "b" };
  const { metadata } = transformSlice({
    metadata: { labels },
    addressType: "IPv4",
    endpoints: [],
  });
  assert.deepEqual(metadata?.labels, { "kubernetes.io/service-name": "a" });
});

Deno.test("selectGateways() gives no new connections to gateways that say that they end, while there are others", () => {
  const slices = [
    slice("IPv4", { at: "10.1.0.1", pod: "p1" }, { at: "10.1.0.2", pod: "p2" }),
  ];
  const facts = { service: service("10.96.0.1"), slices };
  const chosen = (...draining: readonly string[]) => {
    const gateways = ["p1", "p2"].map((name) => ({
      name,
      draining: draining.includes(name),
    }));
    const object = egress("a", { gatewaySelection: "Direct" }, { gateways });
    const [gateway] = select({ ...facts, egress: object }).gateways;
    assert.deepEqual(gateway?.senders.map(String), ["10.1.0.1", "10.1.0.2"]);
    return gateway?.direct?.map(String);
  };
  assert.deepEqual(chosen(), ["10.1.0.1", "10.1.0.2"]);
  assert.deepEqual(chosen("p1"), ["10.1.0.2"]);
  assert.deepEqual(chosen("p1", "p2"), ["10.1.0.1", "10.1.0.2"]);
});

Deno.test("transformEgress() makes changes of the status alone no changes, but for gateways that end", () => {
  const metadata = { name: "a", namespace: "nat", uid: "u", generation: 3 };
  const at = (resourceVersion: string, draining = false) =>
    transformEgress({
      ...egress("a"),
      metadata: { ...metadata, resourceVersion },
      status: {
        clients: Number(resourceVersion),
        gateways: [{ name: "p1", draining, conntrackPercent: 85 }],
      },
    });
  assert.deepEqual(at("1"), at("2"));
  assert.equal(at("1").metadata.resourceVersion, "3");
  const { metadata: { resourceVersion }, status } = at("3", true);
  assert.equal(resourceVersion, "3 p1");
  assert.deepEqual(status, { gateways: [{ name: "p1", draining: true }] });
});

Deno.test("selectGateways() knows pods by their UIDs, and leaves out those whose addresses are taken", () => {
  const slices = [
    slice(
      "IPv4",
      { at: "10.1.0.4", pod: "a-1", uid: "new" },
      { at: "10.1.0.4", pod: "a-0", uid: "old", is: "--t" },
      { at: "10.1.0.5", pod: "a-2", uid: "taken" },
      { at: "10.1.0.6", pod: "a-3" },
    ),
  ];
  const asked: string[] = [];
  const { gateways, targets } = selectGateways(
    [{ namespace: "nat", name: "a" }],
    () => ({
      egress: egress("a", { gatewaySelection: "Direct" }),
      service: service("10.96.0.9"),
      slices,
    }),
    {
      isTaken: (address, uid) => {
        asked.push(`${address} ${uid}`);
        return uid === "taken";
      },
    },
  );
  const [gateway] = gateways;
  assert.deepEqual(gateway?.direct?.map(String), ["10.1.0.4", "10.1.0.6"]);
  assert.deepEqual(gateway?.senders.map(String), ["10.1.0.4", "10.1.0.6"]);
  assert.deepEqual(gateway?.uids, new Map([["10.1.0.4", "new"]]));
  assert.deepEqual(targets.map(({ address }) => `${address}`), [
    "10.1.0.4",
    "10.1.0.6",
  ]);
  assert.equal(asked.length, 3);
});
