import assert from "node:assert/strict";
import type { Egress, EgressClientSlice } from "../../../lib/api/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { clientRows, gatewayRows, selectRows, sourceRows } from "./rows.ts";

function slice(
  name: string,
  clients: readonly (readonly [pod: string, uid: string])[],
): EgressClientSlice {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "EgressClientSlice",
    metadata: { namespace: "nat", name },
    clients: clients.map(([pod, uid]) => ({
      namespace: "apps",
      name: pod,
      uid,
      nodeName: "n1",
      addresses: ["10.2.0.9"],
    })),
  };
}

Deno.test("clientRows() has a client in two slices once, and two pods of one name both", () => {
  const rows = clientRows([
    slice("internet-1", [["web", "u1"]]),
    slice("internet-0", [["web", "u1"], ["db", "u2"], ["db", "u3"]]),
    slice("no-number", [["lost", "u9"]]),
  ]);
  assert.deepEqual(rows.map(({ egress, pod }) => [egress, pod]), [
    ["nat/internet", "apps/db"],
    ["nat/internet", "apps/db"],
    ["nat/internet", "apps/web"],
  ]);
});

function gateway(
  name: string,
  { ready = true, deleted = false, ips = ["10.2.0.50"] } = {},
): V1Pod {
  return {
    metadata: {
      namespace: "nat",
      name,
      labels: { "app.kubernetes.io/instance": "internet" },
      ...(deleted && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
    },
    spec: { nodeName: "n1", containers: [] },
    status: {
      podIPs: ips.map((ip) => ({ ip })),
      conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
    },
  };
}

const EGRESS: Egress = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "Egress",
  metadata: { namespace: "nat", name: "internet" },
  spec: { destinations: [] },
  status: {
    gateways: [
      { name: "b", draining: true },
      {
        name: "c",
        conntrackPercent: 85,
        snatPortsPercent: 90,
        snatPortsDestination: "203.0.113.9:443",
        limitedClients: ["apps/web"],
      },
    ],
  },
};

const GATEWAYS = gatewayRows([
  gateway("e", { ready: false, ips: [] }),
  gateway("d", { deleted: true }),
  gateway("c", { ips: ["10.2.0.53", "fd02::53"] }),
  gateway("b"),
  gateway("a"),
], [EGRESS]);

Deno.test("gatewayRows() says which gateways serve, end, and are short of something", () => {
  assert.deepEqual(
    GATEWAYS.map(({ pod, state, notes }) => [pod, state, notes.join("; ")]),
    [
      ["nat/a", "ready", ""],
      ["nat/b", "draining", ""],
      [
        "nat/c",
        "ready",
        "85% of connections; 90% of source ports to 203.0.113.9:443; limits apps/web",
      ],
      ["nat/d", "draining", ""],
      ["nat/e", "not-ready", ""],
    ],
  );
});

Deno.test("gatewayRows() says to whom a gateway is lost, and when it last was", () => {
  const loss = { since: "2026-01-02T03:04:05Z", endedConnections: 7 };
  const rows = gatewayRows([gateway("a"), gateway("b"), gateway("c")], [{
    ...EGRESS,
    status: {
      gateways: [
        { name: "a", addresses: ["10.2.0.1"], probingNodes: 9 },
        { name: "b", addresses: ["10.2.0.2"] },
        {
          name: "c",
          losses: [
            { ...loss, address: "10.2.0.1", nodes: 4, nodeNames: ["n1", "n2"] },
            { ...loss, address: "10.2.0.2", nodes: 0 },
          ],
          suspects: [{ address: "10.2.0.2", nodes: 2, nodeNames: ["n3"] }],
        },
      ],
    },
  }]);
  assert.deepEqual(
    rows.map(({ probedBy, suspectTo, lostTo, lostSince, ...rest }) => [
      probedBy,
      suspectTo,
      lostTo,
      lostSince,
      rest.endedConnections,
      rest.notes.join(),
    ]),
    [
      [9, 0, 4, loss.since, 7, "no answer to n1, n2, …"],
      [undefined, 2, 0, loss.since, 7, "loses packets of n3, …"],
      [undefined, 0, 0, undefined, undefined, ""],
    ],
  );
});

Deno.test("sourceRows() has all addresses that packets can leave from", () => {
  const rows = sourceRows([
    ...GATEWAYS,
    ...gatewayRows([gateway("f", { ready: false, ips: ["10.2.0.56"] })], []),
  ]);
  assert.deepEqual(rows.map(({ gateway, address }) => [gateway, address]), [
    ["nat/a", "10.2.0.50"],
    ["nat/b", "10.2.0.50"],
    ["nat/c", "10.2.0.53"],
    ["nat/c", "fd02::53"],
    ["nat/d", "10.2.0.50"],
  ]);
});

Deno.test("sourceRows() has with each address what its node makes of it", () => {
  const [address, other] = ["10.2.0.53", "fd02::53"] as const;
  const to = (seenAs: string) => ({
    address,
    seenAs,
    destination: "203.0.113.9",
  });
  const translated = [to("192.0.2.1"), to("192.0.2.2")];
  const gateways = gatewayRows([gateway("c", { ips: [address, other] })], [{
    ...EGRESS,
    status: { gateways: [{ name: "c", translated }] },
  }]);
  assert.deepEqual(
    sourceRows(gateways).map(({ address, seenAs }) => [address, seenAs]),
    [[address, ["192.0.2.1", "192.0.2.2"]], [other, []]],
  );
  assert.deepEqual(gateways[0]?.notes, [
    "leaves its node as 192.0.2.1",
    "leaves its node as 192.0.2.2",
  ]);
});

Deno.test("selectRows() takes an Egress by its name, and those that a pod uses", () => {
  const rows = ["nat/a", "nat/b", "nat/c"].map((egress) => ({ egress }));
  const select = (egress?: string, used?: readonly string[]) =>
    selectRows(rows, { egress, used: used && new Set(used) })
      .map((row) => row.egress);
  assert.deepEqual(select(), ["nat/a", "nat/b", "nat/c"]);
  assert.deepEqual(select("nat/b"), ["nat/b"]);
  assert.deepEqual(select(undefined, ["nat/a", "nat/c"]), ["nat/a", "nat/c"]);
  assert.deepEqual(select("nat/b", ["nat/a"]), []);
  assert.deepEqual(select(undefined, []), []);
});
