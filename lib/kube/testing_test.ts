import assert from "node:assert/strict";
import { TaskGroup } from "../async/mod.ts";
import { settle } from "../async/testing.ts";
import {
  DEPLOYMENTS,
  Informer,
  KubeApiError,
  KubeClient,
  NODES,
  PODS,
  type V1Deployment,
  type V1Pod,
} from "./mod.ts";
import { MemoryApi } from "./testing.ts";

function podOf(
  name: string,
  { namespace = "a", nodeName = "n1", finalizers }: {
    readonly namespace?: string;
    readonly nodeName?: string;
    readonly finalizers?: readonly string[];
  } = {},
): V1Pod {
  const labels = { app: name };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace,
      name,
      labels,
      ...(finalizers && { finalizers: [...finalizers] }),
    },
    spec: { nodeName, containers: [] },
  };
}

function open() {
  const api = new MemoryApi();
  return { api, client: new KubeClient(api, { fieldManager: "test" }) };
}

const target = { namespace: "a", name: "x" };

Deno.test("MemoryApi lists what selectors and namespaces ask for", async () => {
  const { api, client } = open();
  api.put("pods", podOf("x"));
  api.put("pods", podOf("y", { nodeName: "n2" }));
  api.put("pods", podOf("z", { namespace: "b" }));
  const names = async (query: Parameters<typeof client.list>[1]) =>
    (await client.list(PODS, query)).items.map(({ metadata }) =>
      metadata?.name
    );
  assert.deepEqual(await names({}), ["x", "y", "z"]);
  assert.deepEqual(await names({ namespace: "b" }), ["z"]);
  assert.deepEqual(await names({ labelSelector: "app=y" }), ["y"]);
  const fieldSelector = "spec.nodeName=n1,metadata.name!=x";
  assert.deepEqual(await names({ fieldSelector }), ["z"]);
});

Deno.test("MemoryApi refuses what does not fit, as an API server does", async () => {
  const { api, client } = open();
  const statusOf = async (call: Promise<unknown>) => {
    const error = await call.then(() => undefined, (thrown) => thrown);
    return error instanceof KubeApiError ? error.status : error;
  };
  const merge = { kind: "merge" } as const;
  const patch = { metadata: { uid: "another" } };
  assert.equal(await statusOf(client.patch(PODS, target, {}, merge)), 404);
  await client.create(PODS, podOf("x"));
  assert.equal(await statusOf(client.create(PODS, podOf("x"))), 409);
  assert.equal(await statusOf(client.patch(PODS, target, patch, merge)), 409);
  const preconditions = { resourceVersion: "0" };
  const stale = client.delete(PODS, { ...target, preconditions });
  assert.equal(await statusOf(stale), 409);
  const test = [{ op: "test", path: "/spec/nodeName", value: "n2" }] as const;
  const tested = client.patch(PODS, target, test, { kind: "json" });
  assert.equal(await statusOf(tested), 422);
  api.refuse = (write) => write === "DELETE pods/a/x" ? 403 : undefined;
  assert.equal(await statusOf(client.delete(PODS, target)), 403);
  assert.deepEqual(api.keys, ["pods/a/x"]);
});

Deno.test("MemoryApi keeps an object until its last finalizer is gone", async () => {
  const { api, client } = open();
  await client.create(PODS, podOf("x", { finalizers: ["f"] }));
  await client.delete(PODS, target);
  assert.ok(api.get<V1Pod>("pods/a/x")?.metadata?.deletionTimestamp);
  await client.patch(
    PODS,
    target,
    [{ op: "remove", path: "/metadata/finalizers/0" }],
    { kind: "json" },
  );
  assert.deepEqual(api.keys, []);
});

Deno.test("MemoryApi makes what is applied, and changes nothing but the status of a status", async () => {
  const { api, client } = open();
  const apply = { kind: "apply", force: true } as const;
  await client.patch(DEPLOYMENTS, target, { spec: { replicas: 2 } }, apply);
  await client.patch(
    DEPLOYMENTS,
    target,
    { spec: { replicas: 3 }, status: { replicas: 1 } },
    { kind: "merge", subresource: "status" },
  );
  const { spec, status } = api.get<V1Deployment>("deployments/a/x") ?? {};
  assert.deepEqual([spec, status], [{ replicas: 2 }, { replicas: 1 }]);
});

Deno.test("MemoryApi tells watches what comes into their selection, changes and leaves it", async () => {
  const { api, client } = open();
  api.put("pods", podOf("x"));
  api.put("nodes", { metadata: { name: "n1" } });
  const informer = new Informer(client, PODS, {
    fieldSelector: "spec.nodeName=n1",
  });
  const told: string[] = [];
  informer.subscribe(({ type, key }) => void told.push(`${type} ${key}`));
  await using group = new TaskGroup();
  group.run("informer", (signal) => informer.run(signal));
  await informer.synced;
  api.put("pods", podOf("y", { nodeName: "n2" }));
  api.put("pods", podOf("y"));
  api.put("pods", podOf("x", { nodeName: "n2" }));
  api.remove("pods/a/y");
  await settle(200);
  assert.deepEqual(told, [
    "added a/x",
    "added a/y",
    "deleted a/x",
    "deleted a/y",
  ]);
  assert.equal((await client.list(NODES)).items.length, 1);
});
