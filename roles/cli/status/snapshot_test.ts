import assert from "node:assert/strict";
import { KubeApiError, type ResourceType } from "../../../lib/kube/mod.ts";
import { Looker } from "../base/looker.ts";
import { problemsOf } from "./problems.ts";
import { readSnapshot, type Snapshot } from "./snapshot.ts";

/** What is seen of a cluster that has these leases, and none of these definitions. */
async function seen(
  halves: readonly string[],
  ...unserved: readonly string[]
): Promise<Snapshot> {
  const list = async (
    { plural }: ResourceType<object>,
    { fieldSelector = "" }: { readonly fieldSelector?: string },
  ) => {
    if (unserved.includes(plural)) throw new KubeApiError("", { status: 404 });
    const items = halves.map((half) => `coil-${half}-leader`)
      .filter((name) => fieldSelector === `metadata.name=${name}`)
      .map((name) => ({
        metadata: { namespace: "kube-system", name },
        spec: {
          holderIdentity: "n1",
          renewTime: new Date().toISOString(),
          leaseDurationSeconds: 15,
        },
      }));
    // The generic list cannot be written down otherwise.
    return { items, resourceVersion: "1" } as never;
  };
  return await readSnapshot(new Looker({ list } as never, 500));
}

const POOLS = ["addresspools", "blockrequests"];

Deno.test("readSnapshot() does without the definitions of what is not installed", async () => {
  for (
    const [halves, ...unserved] of [
      [["ipam"], "egresses"],
      [["egress"], ...POOLS],
      [["coordinator"], ...POOLS, "egresses"],
    ] as const
  ) {
    const { unseen, leases } = await seen(halves, ...unserved);
    assert.deepEqual(unseen, [], halves[0]);
    assert.deepEqual(leases?.length, 1);
  }
});

Deno.test("readSnapshot() misses the definitions of what leads, and all where nothing leads", async () => {
  for (const halves of [["ipam", "egress"], []]) {
    const snapshot = await seen(halves, ...POOLS, "egresses");
    const unseen = snapshot.unseen.map(({ what }) => what);
    assert.deepEqual(unseen, [...POOLS, "egresses"]);
    assert.deepEqual(snapshot.seen, [
      ...["deployments", "daemonsets", "leases", "pods", "nodes", "vpcnodes"],
    ]);
  }
});

Deno.test("coil status finds no problem of pools in an installation without address management", async () => {
  const snapshot = await seen(["egress"], ...POOLS);
  const found = problemsOf(snapshot, new Date()).map(({ object }) => object);
  assert.deepEqual(found, ["coil-controller", "coild"]);
});
