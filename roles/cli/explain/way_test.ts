import assert from "node:assert/strict";
import type { Egress } from "../../../lib/api/mod.ts";
import type { EgressFacts } from "../../../lib/egress/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { explainWay } from "./way.ts";

function pod(
  annotations: Readonly<Record<string, string>>,
  { ips = ["10.2.0.9"], labels = {}, hostNetwork = false } = {},
): V1Pod {
  return {
    metadata: { namespace: "apps", name: "web", annotations, labels },
    spec: { nodeName: "n1", containers: [], hostNetwork },
    status: { podIPs: ips.map((ip) => ({ ip })) },
  };
}

function egress(
  name: string,
  destinations: readonly string[],
  { ready = true, failurePolicy = "Closed" as const }: {
    readonly ready?: boolean;
    readonly failurePolicy?: "Closed" | "Open";
  } = {},
): [string, EgressFacts] {
  const object: Egress = {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: "nat", name },
    spec: { destinations, failurePolicy },
  };
  return [`nat/${name}`, {
    egress: object,
    service: { spec: { clusterIPs: [`10.96.0.${name.length}`] } },
    slices: [{
      addressType: "IPv4",
      endpoints: [{ addresses: ["10.2.7.7"], conditions: { ready } }],
    }],
  }];
}

const EGRESSES = new Map([
  egress("internet", ["0.0.0.0/0"]),
  egress("office", ["203.0.113.0/24", "10.5.0.0/16"]),
  egress("second", ["203.0.113.0/24"]),
  egress("down", ["198.51.100.0/24"], { ready: false }),
  egress("lax", ["192.0.2.0/24"], { ready: false, failurePolicy: "Open" }),
]);

function explain(
  of: V1Pod,
  to: string,
  defaults?: Readonly<Record<string, string>>,
) {
  return explainWay(of, Address.parse(to), {
    lookup: (ref) =>
      EGRESSES.get(nameText(ref)) ??
        { egress: undefined, service: undefined, slices: [] },
    defaults,
  });
}

const NAMES = (names: string) => ({ "egress.coil.cybozu.com/nat": names });

for (
  const [names, to, expected, remark] of [
    [
      "internet",
      "8.8.8.8",
      /^through Egress nat\/internet, whose destination 0.0.0.0\/0 has it, to one of its gateways 10.2.7.7 \(Service 10.96.0.8\)$/,
    ],
    ["internet,office", "203.0.113.5", /^through Egress nat\/office, /],
    [
      "office,second",
      "203.0.113.5",
      /^through Egress nat\/office, /,
      /^Egress nat\/second has 203.0.113.0\/24 too; nat\/office comes first$/,
    ],
    [
      "internet",
      "10.9.9.9",
      /^by the routes of Node n1: what is in 10.0.0.0\/8 stays in the cluster/,
    ],
    ["office", "10.5.1.1", /^through Egress nat\/office/],
    [
      "office",
      "8.8.8.8",
      /^by the routes of Node n1: no Egress of the pod takes it$/,
    ],
    [
      "down",
      "198.51.100.1",
      /^refused: destination 198.51.100.0\/24 of Egress nat\/down has it, which has no ready gateway/,
    ],
    [
      "lax",
      "192.0.2.1",
      /^by the routes of Node n1: no Egress/,
      /^Egress nat\/lax has the address, but no ready gateway, and failurePolicy Open$/,
    ],
    ["lax", "8.8.8.8", /^by the routes of Node n1: no Egress/],
    [
      "absent",
      "8.8.8.8",
      /^by the routes of Node n1: no Egress/,
      /^Egress nat\/absent does not exist$/,
    ],
    [
      "Not_A_Name",
      "8.8.8.8",
      /^no network is set up: annotation "egress.coil.cybozu.com\/nat" has "Not_A_Name"/,
    ],
    ["internet", "2001:db8::1", /^refused: the pod has no IPv6 address$/],
  ] as const
) {
  Deno.test(`explainWay() of a pod that names ${names} to ${to}`, () => {
    const { summary, remarks } = explain(pod(NAMES(names)), to);
    assert.match(summary, expected);
    assert.equal(remarks.length, remark === undefined ? 0 : 1, remarks.join());
    if (remark !== undefined) assert.match(remarks[0] ?? "", remark);
  });
}

Deno.test("explainWay() of a pod without annotations, on the host network, or of a gateway is the node's", () => {
  const gateway = {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": "egress",
  };
  for (
    const [of, why] of [
      [pod({}), "no Egress of the pod takes it"],
      [
        pod(NAMES("internet"), { hostNetwork: true }),
        "the pod is on the host network",
      ],
      [
        pod(NAMES("internet"), { labels: gateway }),
        "the pod is a gateway of an Egress, and a gateway cannot be a client",
      ],
    ] as const
  ) {
    const { kind, summary } = explain(of, "8.8.8.8");
    assert.deepEqual([kind, summary], [
      "node",
      `by the routes of Node n1: ${why}`,
    ]);
  }
});

Deno.test("explainWay() says that a pod uses an Egress by its namespace, unless its own annotation counts", () => {
  const defaults = { "egress.coil.cybozu.com/nat": "internet" };
  const byDefault = explain(pod({}), "8.8.8.8", defaults);
  assert.equal(byDefault.egress, "nat/internet");
  assert.deepEqual(byDefault.remarks, [
    "Namespace apps names the Egress for its pods",
  ]);
  const own = explain(pod(defaults), "8.8.8.8", defaults);
  assert.deepEqual([own.egress, own.remarks], ["nat/internet", []]);
  const out = pod({ "egress.coil.cybozu.com/nat": "" });
  assert.equal(explain(out, "8.8.8.8", defaults).kind, "node");
});

Deno.test("explainWay() says with which other source packets leave the node of a gateway that serves", () => {
  const [key, facts] = egress("internet", ["0.0.0.0/0"]);
  assert.ok(facts.egress);
  const to = (address: string) => ({
    address,
    seenAs: "192.0.2.1",
    destination: "203.0.113.9",
  });
  const gateways = [
    { name: "a", translated: [to("10.2.7.7")] },
    { name: "gone", translated: [to("10.2.7.8")] },
  ];
  const lookup = () => ({
    ...facts,
    egress: facts.egress && { ...facts.egress, status: { gateways } },
  });
  const client = pod({ "egress.coil.cybozu.com/nat": "internet" });
  assert.equal(key, "nat/internet");
  assert.deepEqual(
    explainWay(client, Address.parse("8.8.8.8"), { lookup }).remarks,
    [
      "The node of gateway 10.2.7.7 translates its address: packets were seen to leave as 192.0.2.1",
    ],
  );
  // It leaves by the node.
  const inside = explainWay(client, Address.parse("10.3.3.3"), { lookup });
  assert.deepEqual(inside.remarks, []);
});
