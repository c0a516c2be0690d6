import assert from "node:assert/strict";
import {
  KubeApiError,
  KubeClient,
  Store,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import {
  NODE_ADDRESSES_ANNOTATION,
  NODE_LABEL,
} from "../../../lib/names/mod.ts";
import { BLOCK_INDEXES } from "../ipam/cluster.ts";
import { NodeAddressKeeper } from "./node_addresses.ts";
import type { CachedBlock } from "../ipam/transform.ts";

const { signal } = new AbortController();

/** Blocks "a" and "b" of node "n1". The API server answers a write to "a" with the status. */
function keeperOf(
  status: number,
  addresses: readonly string[] = ["192.0.2.1"],
) {
  const blocks = new Store<CachedBlock>(BLOCK_INDEXES);
  for (const [index, name] of ["a", "b"].entries()) {
    blocks.set(name, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: { name, uid: name, labels: { [NODE_LABEL]: "n1" } },
      index,
    });
  }
  const nodes = new Store<V1Node>();
  nodes.set("n1", {
    metadata: { name: "n1" },
    status: {
      addresses: addresses.map((address) => ({ type: "InternalIP", address })),
    },
  });
  const transport = new FakeTransport(({ path }) => ({
    status: path.includes("addressblocks/a") ? status : 200,
    body: {},
  }));
  const client = new KubeClient(transport);
  const keeper = new NodeAddressKeeper({ client, blocks, nodes });
  return { keeper, transport, blocks };
}

for (const status of [404, 409]) {
  Deno.test(`NodeAddressKeeper goes on after a block whose write is answered ${status}`, async () => {
    const { keeper, transport } = keeperOf(status);
    await keeper.reconcile("n1", signal);
    assert.equal(transport.requests.length, 2);
  });
}

Deno.test("NodeAddressKeeper is to try again what the API server refuses", async () => {
  const { keeper } = keeperOf(403);
  await assert.rejects(keeper.reconcile("n1", signal), KubeApiError);
});

Deno.test("NodeAddressKeeper says once that a node has no address, and leaves those that it had", () => {
  const { keeper, blocks } = keeperOf(200, []);
  const block = blocks.get("a");
  assert.ok(block);
  const isStale = (text: string) => {
    const annotations = { [NODE_ADDRESSES_ANNOTATION]: text };
    const metadata = { ...block.metadata, annotations };
    return keeper.isStale({ ...block, metadata }, "n1");
  };
  assert.equal(keeper.isStale(block, "n1"), true);
  assert.equal(isStale(""), false);
  assert.equal(isStale("192.0.2.1"), false);
  assert.equal(keeper.isStale(block, "gone"), false);
});
