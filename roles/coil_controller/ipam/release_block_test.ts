import assert from "node:assert/strict";
import type { AddressBlock } from "../../../lib/api/mod.ts";
import { KubeApiError, KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { FINALIZER } from "../../../lib/names/mod.ts";
import { releaseBlock } from "./release_block.ts";

const { signal } = new AbortController();
const BLOCK: AddressBlock = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressBlock",
  metadata: { name: "p-0", uid: "u", finalizers: ["other", FINALIZER] },
  index: 0,
};

/** An API server that answers attempts to take the finalizer away with the statuses, the last one again and again. */
function serverOf(...statuses: readonly number[]): {
  readonly client: KubeClient;
  readonly methods: () => string[];
} {
  let attempts = 0;
  const transport = new FakeTransport(({ method }) => {
    if (method !== "PATCH") return { body: BLOCK };
    const status = statuses[Math.min(attempts++, statuses.length - 1)] ?? 200;
    return { status, body: { kind: "Status" } };
  });
  const methods = () => transport.requests.map(({ method }) => method);
  return { client: new KubeClient(transport), methods };
}

Deno.test("releaseBlock() tries again when the finalizers have changed", async () => {
  const { client, methods } = serverOf(409, 422, 200);
  await releaseBlock(client, BLOCK, { signal });
  assert.deepEqual(methods(), [
    "DELETE",
    ...["PATCH", "GET", "PATCH", "GET", "PATCH"],
  ]);
});

Deno.test("releaseBlock() does not try again what the API server refuses", async () => {
  const { client, methods } = serverOf(403);
  await assert.rejects(releaseBlock(client, BLOCK, { signal }), KubeApiError);
  assert.deepEqual(methods(), ["DELETE", "PATCH"]);
});

Deno.test("releaseBlock() gives up when the finalizers change again and again", async () => {
  const { client, methods } = serverOf(409);
  await assert.rejects(releaseBlock(client, BLOCK, { signal }), KubeApiError);
  assert.equal(methods().filter((method) => method === "PATCH").length, 5);
});

Deno.test("releaseBlock() leaves a block that is gone, or being deleted, to itself", async () => {
  const gone = serverOf(404);
  await releaseBlock(gone.client, BLOCK, { signal });
  assert.deepEqual(gone.methods(), ["DELETE", "PATCH"]);
  const { client, methods } = serverOf(200);
  const metadata = {
    ...BLOCK.metadata,
    deletionTimestamp: "2026-01-01T00:00:00Z",
  };
  await releaseBlock(client, { ...BLOCK, metadata }, { signal });
  assert.deepEqual(methods(), ["PATCH"]);
});

Deno.test("releaseBlock() has no finalizer to remove when others did, or the block is another one", async () => {
  const { name, uid } = BLOCK.metadata;
  for (
    const live of [
      { name, uid, finalizers: ["other"] },
      { name, uid },
      { name, uid: "v", finalizers: [FINALIZER] },
      undefined,
    ]
  ) {
    const transport = new FakeTransport(({ method }) =>
      method === "PATCH"
        ? { status: 409, body: { kind: "Status" } }
        : method === "GET" && live === undefined
        ? { status: 404, body: { kind: "Status" } }
        : { body: { ...BLOCK, metadata: live } }
    );
    const client = new KubeClient(transport);
    await releaseBlock(client, BLOCK, { signal });
    const methods = transport.requests.map(({ method }) => method);
    assert.deepEqual(methods, ["DELETE", "PATCH", "GET"]);
  }
});

Deno.test("releaseBlock() does not touch the finalizers of a block that was replaced, and throws when it is forbidden", async () => {
  for (const status of [404, 409, 403]) {
    const transport = new FakeTransport(() => ({ status, body: {} }));
    const releasing = releaseBlock(new KubeClient(transport), BLOCK, {
      signal,
    });
    if (status === 403) await assert.rejects(releasing, KubeApiError);
    else await releasing;
    const [request, ...more] = transport.requests;
    assert.deepEqual(more, []);
    const { preconditions } = JSON.parse(request?.body ?? "{}");
    assert.deepEqual(preconditions, { uid: "u" });
  }
});
