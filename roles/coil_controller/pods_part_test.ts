import assert from "node:assert/strict";
import { TaskGroup } from "../../lib/async/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { MemoryApi } from "../../lib/kube/testing.ts";
import { openPods } from "./pods_part.ts";

Deno.test("openPods() looks at the memory while pods are read, and while all of them are reported", async () => {
  const api = new MemoryApi();
  for (let n = 0; n < 3; n++) {
    api.put("pods", {
      metadata: { namespace: "team", name: `pod-${n}`, uid: `u${n}` },
      spec: { nodeName: "node1", containers: [{ name: "c" }] },
      status: { phase: "Running", podIPs: [{ ip: `10.1.1.${n}` }] },
    });
  }
  const noted: boolean[] = [];
  await using group = new TaskGroup();
  const pods = openPods(new KubeClient(api), group, {
    everyAddress: true,
    namespaceEgress: false,
    heap: { note: () => void noted.push(pods.hasSynced) },
  });
  await pods.synced;
  assert.deepEqual(noted, [false, false, false, true, true, true]);
});
