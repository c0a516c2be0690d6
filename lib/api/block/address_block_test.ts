import assert from "node:assert/strict";
import {
  type AddressBlock,
  blockOf,
  newAddressBlock,
  nodeAddressesOf,
  tryBlockOf,
} from "./address_block.ts";
import { type Pool, poolOf } from "../pool/pool.ts";

function pool(): Pool {
  return poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default", uid: "pool-uid" },
    spec: {
      blockSizeBits: 1,
      subnets: [{ ipv4: "10.2.0.0/29", ipv6: "fd02::0200/125" }],
    },
  });
}

function block(): AddressBlock {
  const options = { index: 1, node: "node1", requestUid: "request-uid" };
  const made = newAddressBlock(pool(), options);
  assert.ok(made);
  return made;
}

Deno.test("newAddressBlock() has upstream's name, labels, finalizer and owner", () => {
  assert.deepEqual(block(), {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name: "default-1",
      labels: {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": "node1",
        "coil.cybozu.com/request": "request-uid",
      },
      finalizers: ["coil.cybozu.com"],
      ownerReferences: [{
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressPool",
        name: "default",
        uid: "pool-uid",
        controller: true,
        blockOwnerDeletion: true,
      }],
    },
    index: 1,
    ipv4: "10.2.0.2/31",
    ipv6: "fd02::202/127",
  });
});

Deno.test("newAddressBlock() returns undefined past the end of the pool", () => {
  const options = { index: 4, node: "node1", requestUid: "u" };
  assert.equal(newAddressBlock(pool(), options), undefined);
});

Deno.test("blockOf() parses what newAddressBlock() makes", () => {
  const parsed = blockOf(block());
  assert.equal(parsed.pool, "default");
  assert.equal(parsed.node, "node1");
  assert.equal(parsed.request, "request-uid");
  assert.equal(parsed.prefixes.ipv4?.toString(), "10.2.0.2/31");
  assert.equal(parsed.prefixes.ipv6?.toString(), "fd02::202/127");
  assert.equal(parsed.reserved, false);
  assert.equal(parsed.deleting, false);
  assert.equal(parsed.finalized, true);
});

Deno.test("blockOf() reads a block of Coil v1: reserved, without request and finalizer", () => {
  const parsed = blockOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name: "default-0-v1",
      deletionTimestamp: "2026-01-02T03:04:05Z",
      labels: {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": "node1",
        "coil.cybozu.com/reserved": "true",
      },
    },
    index: 0,
    ipv4: "10.2.0.0/31",
  });
  assert.equal(parsed.reserved, true);
  assert.equal(parsed.deleting, true);
  assert.equal(parsed.finalized, false);
  assert.ok(!("request" in parsed));
});

const BROKEN: readonly { what: string; change: object; error: RegExp }[] = [
  {
    what: "no family",
    change: { ipv4: undefined, ipv6: undefined },
    error: /"default-1": it has neither ipv4 nor ipv6/,
  },
  {
    what: "text that is no CIDR",
    change: { ipv4: "10.2.0.2" },
    error: /"default-1": ipv4 is "10.2.0.2"/,
  },
  {
    what: "families of different sizes",
    change: { ipv4: "10.2.0.0/30" },
    error: /differ in size/,
  },
  {
    what: "no labels",
    change: { metadata: { name: "default-1" } },
    error: /label "coil.cybozu.com\/(pool|node)" is missing/,
  },
];

for (const { what, change, error } of BROKEN) {
  Deno.test(`blockOf() refuses a block with ${what}, naming it`, () => {
    const broken = { ...block(), ...change };
    assert.throws(() => blockOf(broken), error);
    assert.equal(tryBlockOf(broken), undefined);
  });
}

Deno.test("nodeAddressesOf() tells a node without addresses from an annotation that says nothing", () => {
  const read = (annotations: Record<string, string>) =>
    nodeAddressesOf({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: { annotations },
      index: 0,
    });
  const annotation = "coil.cybozu.com/node-addresses";
  assert.deepEqual(read({ [annotation]: "" }), {});
  assert.equal(read({ [annotation]: "node1" }), undefined);
  assert.equal(read({}), undefined);
  assert.equal(`${read({ [annotation]: "192.0.2.1" })?.ipv4}`, "192.0.2.1");
});
