import assert from "node:assert/strict";
import { Prefix } from "../../../lib/inet/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import type { RouteExporter } from "../../../lib/routing/mod.ts";
import { ExportTable } from "./route_sink.ts";
import { clearRoutesIfNodeGone } from "./shutdown.ts";

type Synced = Awaited<ReturnType<RouteExporter["sync"]>>;

/** A table whose exporter says these numbers of added routes, one after the other. */
function tableOf(...results: readonly Partial<Synced>[]) {
  const rest = [...results];
  let restored = 0;
  const exporter = {
    sync: () =>
      Promise.resolve({
        failures: [],
        added: 0,
        removed: 0,
        foreign: [],
        ...rest.shift(),
      }),
  } as unknown as RouteExporter;
  const table = new ExportTable(exporter, () => void restored++);
  return { table, restored: () => restored };
}

const [A, B] = ["10.64.0.0/29", "10.64.0.8/29"].map(Prefix.parse);
assert.ok(A && B);
const FAILURE = { destination: A, error: new Error("refused") };

Deno.test("ExportTable tells when routes came back that it had not added just now", async () => {
  const { table, restored } = tableOf(
    { added: 1 },
    { added: 1 },
    { added: 1 },
    { added: 0, removed: 1 },
  );
  await table.sync([A]);
  assert.equal(restored(), 0, "the first look");
  await table.sync([A, B]);
  assert.equal(restored(), 0, "a new block");
  await table.sync([A, B]);
  assert.equal(restored(), 1, "somebody removed one");
  await table.sync([A]);
  assert.equal(restored(), 1, "a block is gone");
  assert.equal(table.restored, 1);
});

Deno.test("ExportTable names a route that is refused, and takes its next look for the first", async () => {
  const { table, restored } = tableOf(
    { added: 1 },
    { failures: [FAILURE] } as unknown as Synced,
    { added: 1 },
  );
  await table.sync([A]);
  await assert.rejects(
    table.sync([A]),
    /Cannot export route "10\.64\.0\.0\/29" \(1 refused\)/,
  );
  await table.sync([A]);
  assert.equal(restored(), 0);
});

Deno.test("clearRoutesIfNodeGone() empties the export table only when the Node is gone for sure", async () => {
  const api = new MemoryApi();
  const synced: number[] = [];
  const routes = {
    sync: (prefixes: readonly Prefix[]) => {
      synced.push(prefixes.length);
      return Promise.resolve();
    },
  };
  const client = new KubeClient(api);
  const options = { node: { name: "n1", seenDeleted: false }, routes };
  api.put("nodes", { metadata: { name: "n1" } });
  await clearRoutesIfNodeGone(client, options);
  assert.deepEqual(synced, []);
  api.remove("nodes//n1");
  await clearRoutesIfNodeGone(client, options);
  assert.deepEqual(synced, [0]);
  api.request = () => Promise.reject(new Error("away"));
  await clearRoutesIfNodeGone(client, options);
  assert.deepEqual(synced, [0]);
  const node = { name: "n1", seenDeleted: true };
  await clearRoutesIfNodeGone(client, { node, routes });
  assert.deepEqual(synced, [0, 0]);
});
