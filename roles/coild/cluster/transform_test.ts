import assert from "node:assert/strict";
import type { AddressPool } from "../../../lib/api/mod.ts";
import { Store } from "../../../lib/kube/mod.ts";
import { type KnownPool, transformPod, transformPool } from "./transform.ts";

const KEY = "egress.coil.cybozu.com/nat";

Deno.test("transformPod() keeps the annotations of egress, and of those that are too long a few words", () => {
  const pod = (value: string) => ({
    metadata: {
      name: "client",
      annotations: { [KEY]: value, "example.com/other": "x" },
    },
  });
  const short = transformPod(pod("internet,dmz"));
  assert.deepEqual(short.metadata?.annotations, { [KEY]: "internet,dmz" });
  const long = transformPod(pod("internet,".repeat(25_000)));
  assert.ok(JSON.stringify(long).length < 500);
  // Still one that asks for egress, and cannot have it.
  assert.equal(long.metadata?.annotations?.[KEY], "(225000 characters)");
});

Deno.test("transformPod() keeps of the status what is read, and no more", () => {
  const status = { phase: "Pending", podIPs: [{ ip: "10.0.1.7" }] };
  const conditions = [{ type: "Ready", status: "False" }];
  const pod = transformPod({ status: { ...status, conditions } });
  assert.deepEqual(pod.status, status);
});

Deno.test("transformPod() keeps of the interface for the default route no more than a name has", () => {
  const key = "ipam.spidernet.io/default-route-nic";
  const kept = (value: string) =>
    transformPod({ metadata: { annotations: { [key]: value } } })
      .metadata?.annotations?.[key];
  assert.equal(kept(" net1 "), "net1");
  assert.equal(kept("n".repeat(200_000)), "n".repeat(16));
});

Deno.test("transformPod() keeps of the pools that a pod names those that count", () => {
  const key = "coil.cybozu.com/pool";
  const kept = (value: string) =>
    transformPod({ metadata: { annotations: { [key]: value } } })
      .metadata?.annotations?.[key];
  assert.equal(kept(" blue, green"), "blue,green");
  assert.equal(kept("p".repeat(200_000)), "p".repeat(64));
});

Deno.test("transformPool() makes changes of the status no changes, but for a pool that becomes low, or ample", () => {
  const pool = (
    resourceVersion: string,
    generation: number,
    { low = "False", free, total = 10_000, ...more }:
      & Partial<AddressPool["metadata"]>
      & {
        readonly low?: "True" | "False";
        readonly free?: number;
        readonly total?: number;
      } = {},
  ): AddressPool => ({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "p", uid: "u", resourceVersion, generation, ...more },
    spec: { subnets: [{ ipv4: "10.0.0.0/24" }] },
    status: {
      observedGeneration: Number(resourceVersion),
      ...(free !== undefined && {
        blocks: { total, allocated: total - free, free },
      }),
      conditions: [{
        type: "CapacityLow",
        status: low,
        lastTransitionTime: "2026-01-01T00:00:00Z",
        reason: "Any",
        message: `${resourceVersion} blocks are free`,
      }],
    },
  });
  const store = new Store<KnownPool>();
  const set = (object: AddressPool) =>
    store.set("p", transformPool(object, store.get("p")));
  assert.equal(set(pool("1", 1))?.type, "added");
  assert.equal(set(pool("2", 1)), undefined, "a status was written");
  assert.equal(set(pool("3", 2))?.type, "updated", "a subnet was added");
  const capacity = () => store.get("p")?.capacity;
  assert.equal(capacity(), "ready");
  assert.equal(set(pool("4", 2, { low: "True" }))?.type, "updated");
  assert.equal(capacity(), "low");
  assert.equal(set(pool("5", 2, { low: "True" })), undefined, "fewer are left");
  assert.equal(set(pool("6", 2))?.type, "updated");
  assert.equal(capacity(), "ready");
  assert.equal(
    set(pool("7", 2, { free: 3_499 })),
    undefined,
    "a third is free",
  );
  assert.equal(set(pool("8", 2, { free: 3_500 }))?.type, "updated");
  assert.equal(capacity(), "ample");
  assert.equal(
    set(pool("9", 2, { free: 3_000 })),
    undefined,
    "a third is free",
  );
  assert.equal(set(pool("10", 2, { free: 2_999 }))?.type, "updated");
  assert.equal(capacity(), "ready");
  assert.equal(set(pool("11", 2, { free: 8_001 })), undefined, "few are used");
  set(pool("12", 2, { free: 8_000 }));
  assert.equal(capacity(), "ample");
  assert.equal(set(pool("13", 2, { free: 8_500 })), undefined, "some are used");
  set(pool("14", 2, { free: 8_501 }));
  assert.equal(capacity(), "ready");
  set(pool("15", 2, { free: 6_000, low: "True" }));
  assert.equal(capacity(), "low", "most is reserved");
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  assert.equal(set(pool("12", 3, { deletionTimestamp }))?.type, "updated");
});

Deno.test("transformPod() keeps of labels those by which a gateway and its Egress are known", () => {
  const labels = {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": "egress",
  };
  const instance = { "app.kubernetes.io/instance": "nat" };
  const kept = (labels: Readonly<Record<string, string>>) =>
    transformPod({
      metadata: { namespace: "internet", labels: { ...labels, team: "a" } },
    }).metadata?.labels;
  assert.deepEqual(kept({ ...labels, ...instance }), {
    ...labels,
    ...instance,
  });
  assert.deepEqual(kept(labels), labels);
  assert.equal(kept(instance), undefined);
});
