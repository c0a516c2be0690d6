import assert from "node:assert/strict";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { Looker } from "../base/looker.ts";
import { readBooks } from "./read_books.ts";

Deno.test("readBooks() reads blocks while pods are read, and names what it may not read in the same order each time", async () => {
  const blocksAsked = Promise.withResolvers<void>();
  const transport = new FakeTransport(async ({ path }) => {
    const isPods = path.includes("/pods");
    // The second page is only there once blocks have been asked for.
    if (isPods && path.includes("continue=")) await blocksAsked.promise;
    if (path.includes("/addressblocks")) blocksAsked.resolve();
    if (!isPods) return { status: 403, body: {} };
    return path.includes("continue=")
      ? { status: 403, body: {} }
      : { body: { metadata: { continue: "2" }, items: [] } };
  });
  const looker = new Looker(new KubeClient(transport), 500);
  const { pods, blocks, egressNames } = await readBooks(looker);
  assert.deepEqual([pods, blocks, egressNames], [undefined, undefined, []]);
  assert.deepEqual(looker.unseen.map(({ what }) => what), [
    ...["pods", "namespaces", "addressblocks", "addresspools"],
    ...["blockrequests", "nodes", "egresses"],
  ]);
});
