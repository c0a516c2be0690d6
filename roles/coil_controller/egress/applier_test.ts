import assert from "node:assert/strict";
import { KubeClient, SERVICES, type V1Service } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { transformOwned } from "../gateway/transform.ts";
import { EgressApplier } from "./applier.ts";

const TARGET = { namespace: "internet", name: "nat" };
const KEY = "services/internet/nat";

/** An API server, and an applier that finds that the Service has no owner. */
function stage() {
  const api = new MemoryApi();
  const client = new KubeClient(api, { fieldManager: "coil-controller" });
  const applier = new EgressApplier(client);
  const { signal } = new AbortController();
  let checked = 0;
  return {
    api,
    applier,
    checked: () => checked,
    /** Applies what the cache of Services shows, if anything. */
    apply: (
      { port = 5555, isCached = false }: {
        readonly port?: number;
        readonly isCached?: boolean;
      } = {},
    ) => {
      const found = isCached ? api.get<V1Service>(KEY) : undefined;
      return applier.apply<V1Service>(SERVICES, {
        ...TARGET,
        plan: { spec: { ports: [{ port }] } },
        live: found && transformOwned(found),
        check: () => void checked++,
        signal,
      });
    },
  };
}

Deno.test("EgressApplier writes what is not as wanted, and nothing else, whether or not a cache shows it", async () => {
  const { api, apply, checked } = stage();
  const first = await apply();
  assert.equal(first.isNew, true);
  assert.deepEqual(first.object?.spec?.ports, [{ port: 5555 }]);
  assert.equal(checked(), 0);
  // A cache that is behind has the live object read, which is as wanted.
  const again = await apply();
  assert.deepEqual([again.isNew, again.object], [false, first.object]);
  assert.equal(checked(), 1);
  assert.deepEqual(await apply({ isCached: true }), { isNew: false });
  assert.equal(api.writes.length, 1);
  const other = await apply({ port: 5556, isCached: true });
  assert.equal(other.isNew, false);
  assert.deepEqual(other.object?.spec?.ports, [{ port: 5556 }]);
  assert.equal(checked(), 2);
  for (const isCached of [true, false]) {
    api.put("services", { ...other.object, spec: { ports: [] } });
    await apply({ port: 5556, isCached });
    assert.deepEqual(api.get<V1Service>(KEY)?.spec, other.object?.spec);
  }
  assert.equal(api.writes.length, 4);
});

Deno.test("EgressApplier takes over what upstream's controller owns, whether or not a cache shows it", async () => {
  for (const isCached of [true, false]) {
    const { api, applier, apply } = stage();
    // Only the record of who wrote a field is not as wanted.
    await apply();
    const object = api.get<V1Service>(KEY);
    assert.ok(object);
    const managedFields = [
      { manager: "coil-egress-controller", operation: "Update", fieldsV1: {} },
    ];
    const metadata = { ...object.metadata, managedFields };
    api.put("services", { ...object, metadata });
    const { isNew } = await apply({ isCached });
    assert.equal(isNew, false);
    const after = api.get<V1Service>(KEY);
    assert.deepEqual(after?.metadata?.managedFields, [
      { manager: "coil-controller", operation: "Apply", fieldsV1: {} },
    ]);
    assert.equal(api.writes.length, 3);
    applier.forget(SERVICES, TARGET);
    await apply({ isCached });
    assert.equal(api.writes.length, 4, "forgotten, it is written again");
  }
});
