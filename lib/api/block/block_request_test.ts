import assert from "node:assert/strict";
import fc from "fast-check";
import {
  blockRequestName,
  blockRequestNames,
  blockRequestResult,
  type BlockRequestStatus,
  completedStatus,
  failedStatus,
  newBlockRequest,
  outOfBlocksMessage,
  overlapInMessage,
  REASON_OUT_OF_BLOCKS,
} from "./block_request.ts";

const NOW = new Date("2026-01-02T03:04:05.678Z");

const COMPLETE = { type: "Complete", status: "True" } as const;
const FAILED = {
  type: "Failed",
  status: "True",
  reason: "out of blocks",
} as const;

const RESULTS: readonly {
  id: string;
  status?: BlockRequestStatus;
  state: "complete" | "failed" | "pending";
}[] = [
  {
    id: "API-20: Complete=True",
    status: { addressBlockName: "b-1", conditions: [COMPLETE] },
    state: "complete",
  },
  {
    id: "API-21: Failed=False, then Complete=True",
    status: {
      addressBlockName: "b-1",
      conditions: [{ type: "Failed", status: "False" }, COMPLETE],
    },
    state: "complete",
  },
  {
    id: "API-22: Complete=True and Failed=True",
    status: { addressBlockName: "b-1", conditions: [COMPLETE, FAILED] },
    state: "failed",
  },
  {
    id: "API-23: Complete=False only",
    status: { conditions: [{ type: "Complete", status: "False" }] },
    state: "pending",
  },
  { id: "API-24: no conditions", status: {}, state: "pending" },
  { id: "API-24: no status", state: "pending" },
  {
    id: "API-25: Failed=True only",
    status: { conditions: [FAILED] },
    state: "failed",
  },
  {
    id: "Complete=True without a block",
    status: { conditions: [COMPLETE] },
    state: "pending",
  },
];

for (const { id, status, state } of RESULTS) {
  Deno.test(`${id}: blockRequestResult() is ${state}`, () => {
    const result = blockRequestResult(status === undefined ? {} : { status });
    assert.equal(result.state, state);
    if (result.state === "complete") assert.equal(result.block, "b-1");
    if (result.state === "failed") assert.equal(result.reason, "out of blocks");
  });
}

Deno.test("completedStatus() names the block and is read back as complete", () => {
  const status = completedStatus("default-3", NOW);
  assert.deepEqual(blockRequestResult({ status }), {
    state: "complete",
    block: "default-3",
  });
  assert.deepEqual(status.conditions, [{
    type: "Complete",
    status: "True",
    reason: "allocated",
    message: "allocated block default-3",
    lastProbeTime: "2026-01-02T03:04:05Z",
    lastTransitionTime: "2026-01-02T03:04:05Z",
  }]);
});

Deno.test("failedStatus() sets Complete and Failed, as upstream does", () => {
  const message = 'pool "default" has no free block';
  const status = failedStatus({ reason: REASON_OUT_OF_BLOCKS, message }, NOW);
  assert.deepEqual(
    status.conditions?.map(({ type, status, reason }) => [
      type,
      status,
      reason,
    ]),
    [
      ["Complete", "True", "completed with failure"],
      ["Failed", "True", "out of blocks"],
    ],
  );
  assert.deepEqual(blockRequestResult({ status }), {
    state: "failed",
    reason: "out of blocks",
    message,
  });
});

Deno.test("newBlockRequest() is owned by the Node, without controller flags", () => {
  const request = newBlockRequest("default", { name: "node1", uid: "u1" });
  assert.equal(request.metadata.name, "req-default-node1");
  assert.deepEqual(request.metadata.ownerReferences, [{
    apiVersion: "v1",
    kind: "Node",
    name: "node1",
    uid: "u1",
  }]);
  assert.deepEqual(request.spec, { nodeName: "node1", poolName: "default" });
});

Deno.test("blockRequestName() of the longest names that labels allow is valid", () => {
  const pool = `a${"-".repeat(61)}a`;
  const name = blockRequestName(pool, "b".repeat(63));
  assert.ok(name.length <= 253, String(name.length));
  assert.match(name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
});

Deno.test("blockRequestName() gives two nodes two names, however the dashes fall", () => {
  assert.equal(blockRequestName("prod-gpu", "1"), "req-prod--gpu-1");
  const word = fc.stringMatching(/^[ab]([-ab]{0,5}[ab])?$/);
  fc.assert(fc.property(word, word, word, word, (pool, node, pool2, node2) => {
    fc.pre(pool !== pool2 || node !== node2);
    assert.notEqual(
      blockRequestName(pool, node),
      blockRequestName(pool2, node2),
    );
  }));
  for (const [pool, node] of splits("a-b--c-d")) {
    for (const [pool2, node2] of splits("a-b--c-d")) {
      if (pool === pool2) continue;
      assert.notEqual(
        blockRequestName(pool, node),
        blockRequestName(pool2, node2),
      );
    }
  }
});

/** Each pair of names that upstream makes one name of. */
function splits(text: string): (readonly [string, string])[] {
  return [...text.matchAll(/(?<=\w)-(?=\w)/g)]
    .map(({ index }) => [text.slice(0, index), text.slice(index + 1)]);
}

Deno.test("blockRequestName() is upstream's where that is unmistakable", () => {
  assert.equal(blockRequestName("default", "node-1"), "req-default-node-1");
});

Deno.test("blockRequestNames() has none in common with those of another pool or node", () => {
  const word = fc.stringMatching(/^[ab23]([-ab23]{0,5}[ab23])?$/);
  fc.assert(fc.property(word, word, word, word, (pool, node, pool2, node2) => {
    fc.pre(pool !== pool2 || node !== node2);
    const others = new Set(blockRequestNames(pool2, node2));
    const names = blockRequestNames(pool, node);
    assert.equal(names[0], blockRequestName(pool, node));
    assert.deepEqual(names.filter((name) => others.has(name)), []);
  }));
});

Deno.test("overlapInMessage() finds what outOfBlocksMessage() was told, and nothing in other words", () => {
  const overlap =
    'AddressPool "other" has no free block: 10.4.0.0/29 is in it too';
  const message = outOfBlocksMessage("default", overlap);
  assert.equal(overlapInMessage("default", message), overlap);
  const alone = outOfBlocksMessage("default");
  assert.equal(alone, 'AddressPool "default" has no free block');
  assert.equal(overlapInMessage("default", alone), undefined);
  assert.equal(overlapInMessage("other", message), undefined);
  const upstreams = "pool default has no free block: none";
  assert.equal(overlapInMessage("default", upstreams), undefined);
});
