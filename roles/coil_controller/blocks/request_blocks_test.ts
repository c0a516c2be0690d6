import assert from "node:assert/strict";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { REQUEST_LABEL } from "../../../lib/names/mod.ts";
import { RequestBlocks } from "./request_blocks.ts";

const { signal } = new AbortController();

/** An API server whose blocks answer the requests, by UID. */
function serverOf(blocks: ReadonlyMap<string, string>): FakeTransport {
  return new FakeTransport(({ path }) => {
    const selector = selectorOf(path);
    const items = [...blocks].filter(([uid]) => selector.includes(uid))
      .map(([uid, name]) => ({
        metadata: { name, labels: { [REQUEST_LABEL]: uid } },
      }));
    return { body: { metadata: { resourceVersion: "1" }, items } };
  });
}

function selectorOf(path: string): string {
  return new URL(path, "http://a").searchParams.get("labelSelector") ?? "";
}

function uids(count: number): ReadonlySet<string> {
  return new Set(Array.from({ length: count }, (_, i) => `uid-${1000 + i}`));
}

Deno.test("RequestBlocks asks for the blocks of pending requests alone, a hundred requests at once", async () => {
  const server = serverOf(
    new Map([["uid-1000", "p-0"], ["uid-1099", "p-1"], ["uid-1249", "p-2"]]),
  );
  const blocks = new RequestBlocks(new KubeClient(server));
  await blocks.learn(uids(250), { signal });
  const selectors = server.requests.map(({ path }) => selectorOf(path));
  assert.deepEqual(
    selectors.map((text) => text.match(/uid-/g)?.length),
    [100, 100, 50],
  );
  assert.match(
    selectors[2] ?? "",
    /^coil\.cybozu\.com\/request in \(uid-1200,/,
  );
  for (const [uid, block] of [["uid-1099", "p-1"], ["uid-1249", "p-2"]]) {
    assert.equal(await blocks.find(uid ?? "", { signal }), block);
  }
  assert.equal(await blocks.find("uid-1001", { signal }), undefined);
  assert.equal(server.requests.length, 3, "what was learnt is not asked again");
});

Deno.test("RequestBlocks asks nothing when nothing is pending", async () => {
  const server = serverOf(new Map());
  const blocks = new RequestBlocks(new KubeClient(server));
  await blocks.learn(new Set(), { signal });
  assert.equal(server.requests.length, 0);
});

Deno.test("RequestBlocks asks for no more than the name of the block of a request in doubt, once", async () => {
  const server = serverOf(new Map([["uid-1", "p-0"]]));
  const blocks = new RequestBlocks(new KubeClient(server));
  blocks.doubt("uid-1");
  assert.equal(await blocks.find("uid-1", { signal }), "p-0");
  assert.equal(await blocks.find("uid-1", { signal }), "p-0");
  const [{ headers } = { headers: {} }, ...more] = server.requests;
  assert.match(
    new Headers(headers).get("accept") ?? "",
    /PartialObjectMetadata/,
  );
  assert.deepEqual(more, []);
});

Deno.test("RequestBlocks forgets a request that has its answer: what answers it is asked for when in doubt again", async () => {
  const existing = new Map([["uid-1", "p-0"]]);
  const server = serverOf(existing);
  const blocks = new RequestBlocks(new KubeClient(server));
  blocks.note("uid-1", "p-0");
  blocks.forget("uid-1");
  existing.clear();
  blocks.doubt("uid-1");
  assert.equal(await blocks.find("uid-1", { signal }), undefined);
  assert.equal(server.requests.length, 1);
  blocks.doubt("uid-1");
  blocks.forget("uid-1");
  assert.equal(await blocks.find("uid-1", { signal }), undefined);
  assert.equal(server.requests.length, 1);
});
