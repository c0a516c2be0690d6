import assert from "node:assert/strict";
import {
  type AddressBlock,
  type AddressPool,
  type BlockRequest,
  poolOf,
} from "../../../lib/api/mod.ts";
import {
  addressesOf,
  blockTransform,
  type CachedBlock,
  isSettled,
  transformNode,
  transformPool,
  transformRequest,
} from "./transform.ts";

const BLOCK: AddressBlock = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressBlock",
  metadata: {
    name: "default-0",
    uid: "u1",
    resourceVersion: "7",
    labels: {
      "coil.cybozu.com/pool": "default",
      "coil.cybozu.com/node": "n1",
      "coil.cybozu.com/request": "r1",
      "other": "x",
    },
    annotations: { a: "b" },
    finalizers: ["coil.cybozu.com"],
  },
  index: 0,
  ipv4: "10.2.0.0/27",
};

Deno.test("blockTransform() keeps what the controller reads of a block", () => {
  const transform = blockTransform();
  assert.deepEqual(transform(BLOCK).metadata, {
    name: "default-0",
    uid: "u1",
    labels: {
      "coil.cybozu.com/pool": "default",
      "coil.cybozu.com/node": "n1",
    },
    finalizers: ["coil.cybozu.com"],
  });
  const deleting = transform({
    ...BLOCK,
    metadata: {
      name: "b",
      deletionTimestamp: "2026-01-01T00:00:00Z",
      finalizers: ["x", "coil.cybozu.com"],
    },
  });
  assert.deepEqual(deleting.metadata, {
    name: "b",
    uid: "",
    labels: {},
    deletionTimestamp: "2026-01-01T00:00:00Z",
    finalizers: ["x", "coil.cybozu.com"],
  });
});

Deno.test("blockTransform() shares labels and finalizers between blocks", () => {
  const transform = blockTransform();
  const other = transform({
    ...BLOCK,
    metadata: { ...BLOCK.metadata, finalizers: ["coil.cybozu.com"] },
  });
  assert.equal(transform(BLOCK).metadata.finalizers, other.metadata.finalizers);
  assert.equal(transform(BLOCK).metadata.labels, other.metadata.labels);
});

Deno.test("transformPool() keeps what a status write needs", () => {
  const pool: AddressPool = {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: {
      name: "p",
      uid: "u",
      resourceVersion: "1",
      generation: 2,
      finalizers: ["f"],
      annotations: { a: "b" },
    },
    spec: { subnets: [{ ipv4: "10.0.0.0/8" }] },
    status: {},
  };
  assert.deepEqual(transformPool(pool), {
    ...pool,
    metadata: {
      name: "p",
      uid: "u",
      resourceVersion: "1",
      generation: 2,
      finalizers: ["f"],
    },
  });
});

Deno.test("transformNode() keeps the identity, addresses and podCIDRs", () => {
  const addresses = [
    { type: "InternalIP", address: "192.168.0.1" },
    { type: "ExternalIP", address: "1.2.3.4" },
  ];
  assert.deepEqual(
    transformNode({
      metadata: { name: "n", uid: "u", labels: { a: "b" } },
      spec: { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"], taints: [] },
      status: {
        phase: "x",
        addresses: [{ type: "Hostname", address: "n" }, ...addresses],
      },
    }),
    {
      metadata: { name: "n", uid: "u" },
      spec: { podCIDRs: ["10.1.0.0/24"] },
      status: { addresses },
    },
  );
  assert.deepEqual(
    transformNode({ metadata: { name: "n", uid: "u" } }),
    { metadata: { name: "n", uid: "u" }, status: { addresses: [] } },
  );
});

Deno.test("transformRequest() keeps a request that waits, and hardly anything of one that does not", () => {
  const waiting: BlockRequest = {
    apiVersion: "coil.cybozu.com/v2",
    kind: "BlockRequest",
    metadata: { name: "r", uid: "u", resourceVersion: "3" },
    spec: { nodeName: "n", poolName: "p" },
  };
  assert.deepEqual(transformRequest(waiting), waiting);
  const done = {
    ...waiting,
    status: {
      addressBlockName: "p-0",
      conditions: [{ type: "Complete", status: "True", message: "long" }],
    },
  } as const;
  const deleting = {
    ...waiting,
    metadata: {
      ...waiting.metadata,
      deletionTimestamp: "2026-01-01T00:00:00Z",
    },
  };
  for (const request of [done, deleting]) {
    const transformed = transformRequest(request);
    assert.ok(isSettled(transformed));
    assert.deepEqual(transformed.metadata, { name: "r", uid: "u" });
  }
  assert.ok(!isSettled(waiting));
});

Deno.test("blockTransform() keeps the addresses that do not follow from the index", () => {
  const pool = poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { subnets: [{ ipv4: "10.2.0.0/24" }] },
  });
  const transform = blockTransform({
    layoutOf: (name) => name === "default" ? pool : undefined,
  });
  const text = (block: CachedBlock) => String(addressesOf(block).ipv4);
  const usual = transform(BLOCK);
  assert.equal(usual.layout, pool);
  assert.equal(usual.ipv4, undefined);
  assert.equal(text(usual), "10.2.0.0/27");
  const odd = transform({ ...BLOCK, index: 1 });
  assert.equal(odd.ipv4, "10.2.0.0/27");
  assert.equal(text(odd), "10.2.0.0/27");
  assert.equal(text(blockTransform()(BLOCK)), "10.2.0.0/27");
  assert.equal(transform({ ...BLOCK, ipv6: "fd02::/123" }).ipv6, "fd02::/123");
  assert.deepEqual(addressesOf({ ...BLOCK, ipv4: "nonsense" }), {});
});
