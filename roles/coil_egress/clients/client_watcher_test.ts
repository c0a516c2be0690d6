import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { type FakeAnswer, FakeTransport } from "../../../lib/kube/testing.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { ClientWatcher } from "./client_watcher.ts";

configureLogging({ write: () => {} });

/** Runs a watcher against a server that takes some selectors, and returns how pods were listed. */
async function listedBy(
  probe: (attempt: number) => FakeAnswer,
): Promise<string[]> {
  const lists: string[] = [];
  let probes = 0;
  const stop = new AbortController();
  const transport = new FakeTransport((request) => {
    const { searchParams } = new URL(request.path, "http://x");
    const selector = searchParams.get("fieldSelector") ?? "";
    if (selector.startsWith("metadata.name=-")) return probe(++probes);
    if (searchParams.get("watch") === "true") {
      // A watch in which nothing happens.
      return {
        lines: (async function* () {
          while (!request.signal?.aborted) await sleep(5);
          yield* [];
        })(),
      };
    }
    lists.push(selector);
    return { body: { metadata: { resourceVersion: "1" }, items: [] } };
  });
  const watcher = new ClientWatcher({
    client: new KubeClient(transport),
    egress: { namespace: "nat", name: "internet" },
    onChange: () => {},
    onRead: () => {},
  });
  const { promise: synced, resolve } = Promise.withResolvers<void>();
  const running = watcher.run(stop.signal, resolve).catch((error) => {
    if (!stop.signal.aborted) throw error;
  });
  await synced;
  stop.abort();
  await running;
  return lists;
}

const EMPTY: FakeAnswer = {
  body: { metadata: { resourceVersion: "1" }, items: [] },
};

Deno.test("ClientWatcher has the server leave out ended pods and the host's network", async () => {
  assert.deepEqual(await listedBy(() => EMPTY), [
    "status.phase!=Succeeded,status.phase!=Failed,spec.hostNetwork=false",
  ]);
});

Deno.test("ClientWatcher does without spec.hostNetwork where the server refuses it", async () => {
  const message = "field label not supported: spec.hostNetwork";
  const refusal = { kind: "Status", code: 400, reason: "BadRequest", message };
  assert.deepEqual(
    await listedBy(() => ({ status: 400, body: refusal })),
    ["status.phase!=Succeeded,status.phase!=Failed"],
  );
});

Deno.test("ClientWatcher asks again when it may not list pods yet", async () => {
  assert.deepEqual(
    await listedBy((n) => n === 1 ? { status: 403, body: {} } : EMPTY),
    ["status.phase!=Succeeded,status.phase!=Failed,spec.hostNetwork=false"],
  );
});
