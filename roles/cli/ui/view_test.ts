import assert from "node:assert/strict";
import type { Egress, EgressClientSlice } from "../../../lib/api/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import {
  block,
  NOW,
  pod,
  pool,
  vpcNode,
} from "../../../lib/ipam/audit/testing.ts";
import type { Part } from "../status/snapshot.ts";
import {
  type BlockView,
  egressEntries,
  type EgressView,
  type NodeView,
  poolEntries,
  type PoolView,
  statusEntries,
  type StatusView,
} from "./view.ts";

function viewOf<T>(entries: ReadonlyMap<string, string>, key: string): T {
  return JSON.parse(entries.get(key) ?? "null");
}

const PART: Part = {
  namespace: "kube-system",
  name: "coild-1",
  component: "coild",
  node: "n1",
  version: "1.0",
  isReady: false,
  reason: "CrashLoopBackOff",
  restarts: 3,
  container: "coild",
};

Deno.test("statusEntries() has what coil status finds, and each node with its coild", () => {
  const entries = statusEntries({
    parts: [PART, { ...PART, component: "coil-controller", node: "n2" }],
    workloads: [],
    nodes: [
      { name: "n1", networkUnavailable: undefined },
      { name: "n2", networkUnavailable: "no route" },
    ],
    unseen: [{ what: "leases", why: "forbidden" }],
  }, { cluster: "c:6443", now: NOW });
  const status = viewOf<StatusView>(entries, "status");
  assert.equal(status.cluster, "c:6443");
  assert.deepEqual(status.unseen, [{ what: "leases", why: "forbidden" }]);
  assert.ok(
    status.problems.some(({ object, next }) =>
      object === "Pod kube-system/coild-1" &&
      next === "kubectl -n kube-system logs coild-1 -c coild --previous"
    ),
  );
  assert.equal(viewOf<NodeView>(entries, "node/n1").coild?.name, "coild-1");
  assert.deepEqual(viewOf<NodeView>(entries, "node/n2"), {
    name: "n2",
    networkUnavailable: "no route",
  });
  assert.equal(entries.size, 3);
});

const POOL = pool("default", [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]);

Deno.test("poolEntries() says at which place of which block a pod is, and who is in none", () => {
  const blocks = [
    block(["default", 1, "n1"], { ipv4: "10.2.0.32/27", ipv6: "fd02::20/123" }),
  ];
  const pods = [
    pod("web", "n1", { ipv4: "10.2.0.41", ipv6: "fd02::29" }),
    pod("odd", "n1", { ipv4: "10.2.0.42", ipv6: "fd02::2b" }),
    pod("lost", "n1", { ipv4: "10.2.0.200" }),
    pod("foreign", "n1", { ipv4: "192.0.2.1" }),
  ];
  const object = { ...POOL, spec: { ...POOL.spec, reserved: ["10.2.0.33"] } };
  const entries = poolEntries({ pools: [object], blocks, pods });
  assert.deepEqual([...entries.keys()], ["pool/default", "block/default-1"]);
  const found = viewOf<BlockView>(entries, "block/default-1");
  assert.deepEqual(found.reserved, [1]);
  assert.deepEqual(
    found.holders.map(({ pod, places }) => [pod, places]),
    [["web", [9]], ["odd", [10, 11]]],
  );
  assert.ok(found.holders.every(({ since }) => since !== undefined));
  const { row, subnets, outside } = viewOf<PoolView>(entries, "pool/default");
  assert.equal(row.blocks?.allocated, 1);
  assert.deepEqual(subnets, [
    { ipv4: "10.2.0.0/24", ipv6: "fd02::/120", firstBlock: 0, blocks: 8 },
  ]);
  assert.deepEqual(outside.map(({ pod }) => pod), ["lost"]);
});

Deno.test("poolEntries() shows a pool whose subnets cannot be read, and the others", () => {
  const broken = pool("broken", [{ ipv4: "10.2.0.0/33" }]);
  const entries = poolEntries({ pools: [broken, POOL], blocks: [], pods: [] });
  assert.equal(
    viewOf<PoolView>(entries, "pool/broken").row.state,
    "InvalidSpec",
  );
  assert.deepEqual(viewOf<PoolView>(entries, "pool/broken").subnets, []);
  assert.equal(viewOf<PoolView>(entries, "pool/default").subnets.length, 1);
});

Deno.test("poolEntries() has the ENIs of pool vpc, their blocks, and who is in none", () => {
  const entries = poolEntries({
    pools: [POOL],
    blocks: [],
    pods: [
      pod("web", "n1", { ipv4: "10.0.1.6" }),
      pod("lost", "n1", { ipv4: "10.0.1.99" }),
      pod("foreign", "n2", { ipv4: "10.0.1.98" }),
    ],
    vpcNodes: [vpcNode("n1", [["10.0.1.5/32"], ["10.0.1.6/32"]])],
  });
  assert.deepEqual([...entries.keys()], [
    ...["pool/default", "pool/vpc"],
    ...["block/eni-n10/10.0.1.5/32", "block/eni-n11/10.0.1.6/32"],
  ]);
  const { enis, outside, row } = viewOf<PoolView>(entries, "pool/vpc");
  assert.deepEqual(
    enis?.map(({ id, node, device }) => [id, node, device]),
    [["eni-n10", "n1", 0], ["eni-n11", "n1", 1]],
  );
  assert.deepEqual(outside.map(({ pod }) => pod), ["lost"]);
  assert.equal(row.blocks?.allocated, 2);
  const { holders } = viewOf<BlockView>(entries, "block/eni-n11/10.0.1.6/32");
  assert.deepEqual(holders.map(({ pod, places }) => [pod, places]), [
    ["web", [0]],
  ]);
});

const EGRESS: Egress = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "Egress",
  metadata: { namespace: "nat", name: "internet" },
  spec: { destinations: ["0.0.0.0/0"] },
  status: {
    conditions: [{
      type: "Ready",
      status: "False",
      reason: "NoGateway",
      message: "no gateway is ready",
      lastTransitionTime: "2026-01-01T00:00:00Z",
    }],
  },
};

const SLICE: EgressClientSlice = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "EgressClientSlice",
  metadata: { namespace: "nat", name: "internet-0" },
  clients: [{ namespace: "apps", name: "web", uid: "u", nodeName: "n1" }],
};

const GATEWAY: V1Pod = {
  metadata: {
    namespace: "nat",
    name: "internet-x",
    labels: { "app.kubernetes.io/instance": "internet" },
  },
  spec: { nodeName: "n2", containers: [] },
  status: {
    podIPs: [{ ip: "10.2.0.50" }],
    conditions: [{ type: "Ready", status: "True" }],
  },
};

Deno.test("egressEntries() leads from clients through gateways to sources", () => {
  const entries = egressEntries({
    egresses: [EGRESS, {
      ...EGRESS,
      metadata: { namespace: "nat", name: "other" },
      status: {},
    }],
    slices: [SLICE],
    gateways: [GATEWAY],
  });
  const view = viewOf<EgressView>(entries, "egress/nat/internet");
  assert.equal(view.isReady, false);
  assert.equal(view.message, "no gateway is ready");
  assert.deepEqual(view.clients.map(({ pod }) => pod), ["apps/web"]);
  assert.deepEqual(view.gateways.map(({ pod }) => pod), ["nat/internet-x"]);
  assert.deepEqual(view.sources.map(({ address }) => address), ["10.2.0.50"]);
  const other = viewOf<EgressView>(entries, "egress/nat/other");
  assert.deepEqual(
    [other.clients, other.gateways, other.sources, other.message],
    [[], [], [], "coil-controller has not looked at it"],
  );
});
