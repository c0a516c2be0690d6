import assert from "node:assert/strict";
import {
  CONFIG_MAPS,
  KubeApiError,
  KubeClient,
} from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { deleteIfThere } from "./delete.ts";

const TARGET = { namespace: "a", name: "b" };
const KEY = "configmaps/a/b";

Deno.test("deleteIfThere() deletes what is there, and only what was meant", async () => {
  const api = new MemoryApi();
  const client = new KubeClient(api);
  await deleteIfThere(client, CONFIG_MAPS, TARGET);
  api.put("configmaps", { metadata: { ...TARGET, uid: "u1" } });
  const preconditions = { uid: "u0" };
  await assert.rejects(
    deleteIfThere(client, CONFIG_MAPS, { ...TARGET, preconditions }),
    KubeApiError,
  );
  assert.ok(api.get(KEY));
  await deleteIfThere(client, CONFIG_MAPS, TARGET);
  assert.equal(api.get(KEY), undefined);
});
