import assert from "node:assert/strict";
import {
  type AddressBlock,
  newAddressBlock,
  poolOf,
} from "../../lib/api/mod.ts";
import { untilPasses } from "../../lib/async/testing.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { FakeTransport } from "../../lib/kube/testing.ts";
import { ClusterView } from "./cluster_view.ts";
import { RouteBook } from "./route_book.ts";

const POOL = poolOf({
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressPool",
  metadata: { name: "p", uid: "pool-uid" },
  spec: { blockSizeBits: 5, subnets: [{ ipv4: "10.2.0.0/16" }] },
});

function block(index: number, version: number, address: string): AddressBlock {
  const made = newAddressBlock(POOL, {
    index,
    node: "other",
    nodeAddresses: address,
    requestUid: "request-uid",
  });
  assert.ok(made);
  const metadata = { ...made.metadata, resourceVersion: `${version}` };
  return { ...made, metadata };
}

/** A view of a block `p-0`, and of these events behind it, once all are read. */
async function viewOf(
  events: readonly { readonly type: string; readonly object: unknown }[],
  test: (seen: { book: RouteBook; changes: number }) => void,
): Promise<void> {
  const end = { "k8s.io/initial-events-end": "true" };
  const lines = [
    { type: "ADDED", object: block(0, 1, "192.168.0.2") },
    {
      type: "BOOKMARK",
      object: { metadata: { resourceVersion: "1", annotations: end } },
    },
    ...events,
  ];
  const stop = new AbortController();
  const transport = new FakeTransport(({ signal }) => ({
    lines: (async function* () {
      yield* lines.splice(0);
      await new Promise((resolve) =>
        signal?.addEventListener("abort", resolve)
      );
    })(),
  }), { streamsLists: true });
  const book = new RouteBook("self");
  const seen = { book, changes: 0, read: 0 };
  using client = new KubeClient(transport);
  const view = new ClusterView(client, {
    book,
    onChange: () => seen.changes++,
    onRead: () => seen.read++,
  });
  const running = Object.values(view.loops).map((loop) => loop(stop.signal));
  const reads = 1 + events.filter(({ type }) => type !== "DELETED").length;
  await untilPasses(() => assert.equal(seen.read, reads));
  test(seen);
  stop.abort();
  await Promise.all(running);
}

const routesOf = (book: RouteBook) =>
  [...book.routes().gateways].map(([key, gateway]) => `${key} via ${gateway}`);

Deno.test("ClusterView takes an edit of a block that changes no route for no change", async () => {
  const edited = block(0, 2, "192.168.0.2");
  const object = {
    ...edited,
    metadata: { ...edited.metadata, uid: "another", finalizers: [] },
  };
  await viewOf([{ type: "MODIFIED", object }], ({ book, changes }) => {
    assert.equal(changes, 1);
    assert.deepEqual(routesOf(book), ["10.2.0.0/27 via 192.168.0.2"]);
  });
});

Deno.test("ClusterView follows a block to another address of its node, and withdraws one that cannot be read", async () => {
  const moved = block(0, 2, "192.168.0.3");
  await viewOf([
    { type: "MODIFIED", object: moved },
    { type: "ADDED", object: block(1, 3, "192.168.0.3") },
  ], ({ book, changes }) => {
    assert.equal(changes, 3);
    assert.deepEqual(routesOf(book), [
      "10.2.0.0/27 via 192.168.0.3",
      "10.2.0.32/27 via 192.168.0.3",
    ]);
  });
  const object = { ...moved, ipv4: "10.2.0.0" };
  await viewOf([{ type: "MODIFIED", object }], ({ book, changes }) => {
    assert.equal(changes, 2);
    assert.deepEqual(routesOf(book), []);
  });
});

Deno.test("ClusterView withdraws a deleted block regardless of its last version", async () => {
  const object = block(0, 3, "192.168.0.9");
  await viewOf([
    { type: "DELETED", object },
    { type: "ADDED", object: block(1, 4, "192.168.0.3") },
  ], ({ book }) => {
    assert.deepEqual(routesOf(book), ["10.2.0.32/27 via 192.168.0.3"]);
  });
});
