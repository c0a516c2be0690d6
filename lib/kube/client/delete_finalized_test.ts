import assert from "node:assert/strict";
import { FakeTransport } from "../testing.ts";
import type { ResourceType } from "../api/resource.ts";
import type { KubeObject } from "../api/objects.ts";
import { KubeApiError } from "../http/errors.ts";
import { KubeClient } from "./client.ts";
import { deleteFinalized } from "./delete_finalized.ts";

const FINALIZER = "example.com/keep";
const THINGS: ResourceType<KubeObject> = {
  kind: "Thing",
  group: "example.com",
  version: "v1",
  plural: "things",
  namespaced: false,
};
const THING = {
  metadata: { name: "p-0", uid: "u", finalizers: ["other", FINALIZER] },
};

function deleting(client: KubeClient, object: KubeObject): Promise<void> {
  return deleteFinalized(client, THINGS, { object, finalizer: FINALIZER });
}

/** An API server that answers attempts to take the finalizer away with the statuses, the last one again and again. */
function serverOf(...statuses: readonly number[]): {
  readonly client: KubeClient;
  readonly methods: () => string[];
} {
  let attempts = 0;
  const transport = new FakeTransport(({ method }) => {
    if (method !== "PATCH") return { body: THING };
    const status = statuses[Math.min(attempts++, statuses.length - 1)] ?? 200;
    return { status, body: { kind: "Status" } };
  });
  const methods = () => transport.requests.map(({ method }) => method);
  return { client: new KubeClient(transport), methods };
}

Deno.test("deleteFinalized() tries again when the finalizers have changed", async () => {
  const { client, methods } = serverOf(409, 422, 200);
  await deleting(client, THING);
  assert.deepEqual(methods(), [
    "DELETE",
    ...["PATCH", "GET", "PATCH", "GET", "PATCH"],
  ]);
});

Deno.test("deleteFinalized() does not try again what the API server refuses", async () => {
  const { client, methods } = serverOf(403);
  await assert.rejects(deleting(client, THING), KubeApiError);
  assert.deepEqual(methods(), ["DELETE", "PATCH"]);
});

Deno.test("deleteFinalized() gives up when the finalizers change again and again", async () => {
  const { client, methods } = serverOf(409);
  await assert.rejects(deleting(client, THING), KubeApiError);
  assert.equal(methods().filter((method) => method === "PATCH").length, 5);
});

Deno.test("deleteFinalized() leaves an object that is gone, or being deleted, to itself", async () => {
  const gone = serverOf(404);
  await deleting(gone.client, THING);
  assert.deepEqual(gone.methods(), ["DELETE", "PATCH"]);
  const { client, methods } = serverOf(200);
  const metadata = {
    ...THING.metadata,
    deletionTimestamp: "2026-01-01T00:00:00Z",
  };
  await deleting(client, { ...THING, metadata });
  assert.deepEqual(methods(), ["PATCH"]);
});

Deno.test("deleteFinalized() has no finalizer to remove when others did, or the object is another one", async () => {
  const { name, uid } = THING.metadata;
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
        : { body: { ...THING, metadata: live } }
    );
    const client = new KubeClient(transport);
    await deleting(client, THING);
    const methods = transport.requests.map(({ method }) => method);
    assert.deepEqual(methods, ["DELETE", "PATCH", "GET"]);
  }
});

Deno.test("deleteFinalized() does not touch the finalizers of an object that was replaced, and throws when it is forbidden", async () => {
  for (const status of [404, 409, 403]) {
    const transport = new FakeTransport(() => ({ status, body: {} }));
    const ending = deleting(new KubeClient(transport), THING);
    if (status === 403) await assert.rejects(ending, KubeApiError);
    else await ending;
    const [request, ...more] = transport.requests;
    assert.deepEqual(more, []);
    const { preconditions } = JSON.parse(request?.body ?? "{}");
    assert.deepEqual(preconditions, { uid: "u" });
  }
});
