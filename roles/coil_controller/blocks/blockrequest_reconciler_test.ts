import assert from "node:assert/strict";
import {
  type AddressPool,
  BLOCK_REQUESTS,
  type BlockRequest,
  newBlockRequest,
} from "../../../lib/api/mod.ts";
import { OutOfBlocksError } from "../../../lib/ipam/mod.ts";
import {
  type KubeClient,
  type KubeObject,
  NODES,
  type Store,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import type { Answer } from "./block_reports.ts";
import { BlockRequestReconciler } from "./blockrequest_reconciler.ts";

const DELETED = new Date(0).toISOString();

function storeOf<T extends KubeObject>(get: () => T | undefined): Store<T> {
  return { get } as Partial<Store<T>> as Store<T>;
}

function changed(
  pool: AddressPool,
  change: "delete" | "pause" | "remove",
): AddressPool | undefined {
  const { metadata, spec } = pool;
  switch (change) {
    case "delete":
      return { ...pool, metadata: { ...metadata, deletionTimestamp: DELETED } };
    case "pause":
      return { ...pool, spec: { ...spec, paused: true } };
    case "remove":
      return undefined;
  }
}

for (
  const [title, change, expected, isLate] of [
    ["is being deleted", "delete", /is being deleted/, false],
    ["is paused", "pause", /AddressPool "p" is paused/, false],
    ["is gone", "remove", /AddressPool "p" does not exist/, false],
    ["is paused", "pause", /AddressPool "p" is paused/, true],
    ["is gone", "remove", /AddressPool "p" does not exist/, true],
  ] as const
) {
  const when = isLate
    ? "other pools' blocks have been read"
    : "the API server has answered for the Node";
  Deno.test(`BlockRequestReconciler allocates nothing of a pool that ${title} when ${when}`, async () => {
    let pool: AddressPool | undefined = {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name: "p", uid: "u" },
      spec: { blockSizeBits: 5, subnets: [{ ipv4: "10.0.0.0/24" }] },
    };
    const request: BlockRequest = newBlockRequest("p", { name: "n", uid: "x" });
    const client: Pick<KubeClient, "tryGet" | "updateStatus"> = {
      tryGet: ((type: unknown) => {
        if (type !== NODES) return Promise.resolve(undefined);
        if (!isLate) pool = pool && changed(pool, change);
        return Promise.resolve({ metadata: { name: "n" } });
      }) as unknown as KubeClient["tryGet"],
      updateStatus: ((type: unknown, object: unknown) => {
        assert.equal(type, BLOCK_REQUESTS);
        return Promise.resolve(object);
      }) as unknown as KubeClient["updateStatus"],
    };
    const answers: Answer[] = [];
    const reconciler = new BlockRequestReconciler({
      client: client as KubeClient,
      requests: storeOf(() => request),
      pools: storeOf(() => pool),
      nodes: storeOf<V1Node>(() => undefined),
      answers: { find: () => Promise.resolve(undefined), note() {} } as never,
      allocator: {
        allocate: () => {
          assert.ok(isLate, "a block was allocated");
          pool = pool && changed(pool, change);
          return Promise.reject(new OutOfBlocksError("p"));
        },
        overlap: () => undefined,
      },
      limit: {
        take: () =>
          Promise.resolve({
            allocating() {},
            allocated() {},
            [Symbol.dispose]() {},
          }),
      },
      reports: { answered: (_request, answer) => void answers.push(answer) },
    });
    await reconciler.reconcile("r", new AbortController().signal);
    const [answer] = answers;
    assert.ok(answer?.result === "failed");
    assert.match(answer.message, expected);
  });
}
