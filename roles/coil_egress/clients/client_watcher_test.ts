import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { untilStopped } from "../../../lib/async/testing.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { ClientWatcher } from "./client_watcher.ts";

configureLogging({ write: () => {} });

const CLIENT = { namespace: "team", name: "a", uid: "u1", nodeName: "node1" };

/** A watcher whose API server has one slice, with that client as soon as it is told so. */
async function running(
  work: (f: {
    readonly watcher: ClientWatcher;
    readonly bring: () => void;
    readonly paths: () => string[];
    readonly signal: AbortSignal;
  }) => Promise<void>,
): Promise<void> {
  const { promise: brought, resolve: bring } = Promise.withResolvers<void>();
  const slice = (version: string, clients: unknown[]) => ({
    apiVersion: "coil.cybozu.com/v2",
    kind: "EgressClientSlice",
    metadata: {
      namespace: "nat",
      name: "internet-0",
      resourceVersion: version,
    },
    clients,
  });
  const transport = new FakeTransport((request) =>
    request.path.includes("watch=true")
      ? {
        lines: (async function* () {
          await brought;
          yield ({
            type: "MODIFIED",
            object: slice("2", [CLIENT]),
          });
          while (!request.signal?.aborted) await sleep(5);
        })(),
      }
      : {
        body: { metadata: { resourceVersion: "1" }, items: [slice("1", [])] },
      }
  );
  using watcher = new ClientWatcher({
    client: new KubeClient(transport),
    egress: { namespace: "nat", name: "internet" },
    onChange: () => {},
  });
  const stop = new AbortController();
  const { promise: synced, resolve } = Promise.withResolvers<void>();
  const { signal } = stop;
  const ended = untilStopped(watcher.run(signal, resolve), signal);
  await synced;
  const paths = () => transport.requests.map(({ path }) => path);
  await work({ watcher, bring, paths, signal: stop.signal });
  bring();
  stop.abort();
  await ended;
}

Deno.test("ClientWatcher reads the slices of its Egress alone", async () => {
  await running(({ paths }) => {
    for (const path of paths()) {
      const url = new URL(path, "http://x");
      assert.match(url.pathname, /\/namespaces\/nat\/egressclientslices$/);
      assert.equal(
        url.searchParams.get("labelSelector"),
        "app.kubernetes.io/instance=internet",
      );
    }
    return Promise.resolve();
  });
});

Deno.test("ClientWatcher.find() waits for the slice that has the client, for all who ask", async () => {
  await running(async ({ watcher, bring, signal }) => {
    const finds = [1, 2].map(() => watcher.find("u1", { ms: 60_000, signal }));
    bring();
    for (const pod of await Promise.all(finds)) assert.equal(pod?.name, "a");
    const again = await watcher.find("u1", { ms: 0, signal });
    assert.equal(again?.name, "a");
  });
});

Deno.test("ClientWatcher does not know the clients before it has seen the first slice", async () => {
  let line = (_event: unknown) => {};
  const slice = (name: string, clients: unknown[]) => ({
    apiVersion: "coil.cybozu.com/v2",
    kind: "EgressClientSlice",
    metadata: { namespace: "nat", name, resourceVersion: "2" },
    clients,
  });
  const transport = new FakeTransport((request) =>
    request.path.includes("watch=true")
      ? {
        lines: (async function* () {
          while (!request.signal?.aborted) {
            const { promise, resolve } = Promise.withResolvers<unknown>();
            line = resolve;
            yield await promise;
          }
        })(),
      }
      : {
        body: {
          metadata: { resourceVersion: "1" },
          items: [slice("internet-1", [CLIENT])],
        },
      }
  );
  using watcher = new ClientWatcher({
    client: new KubeClient(transport),
    egress: { namespace: "nat", name: "internet" },
    onChange: () => {},
  });
  let isSynced = false;
  const stop = new AbortController();
  const { signal } = stop;
  const ended = untilStopped(
    watcher.run(signal, () => isSynced = true),
    signal,
  );
  const send = async (name: string) => {
    line({ type: "ADDED", object: slice(name, []) });
    await sleep(20);
  };
  while (transport.requests.length < 2) await sleep(5);
  await send("internet-2");
  assert.equal(watcher.pods.size, 1);
  assert.equal(isSynced, false);
  await send("internet-0");
  assert.equal(isSynced, true);
  stop.abort();
  line({ type: "BOOKMARK", object: slice("internet-0", []) });
  await ended;
});

Deno.test("ClientWatcher.find() returns nothing when its time is over, and rejects when it is aborted", async () => {
  await running(async ({ watcher, signal }) => {
    assert.equal(await watcher.find("u1", { ms: 10, signal }), undefined);
    const stop = new AbortController();
    const find = watcher.find("u1", { ms: 60_000, signal: stop.signal });
    stop.abort(new Error("enough"));
    await assert.rejects(find, /enough/);
  });
});
