import assert from "node:assert/strict";
import {
  blockRequestName,
  blockRequestResult,
  type BlockRequestStatus,
  completedStatus,
  failedStatus,
  newBlockRequest,
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

Deno.test("blockRequestName() of long names stays valid and distinct", () => {
  const node = `${"a".repeat(180)}.${"b".repeat(50)}`;
  const names = ["p1", "p2"].map((p) => blockRequestName(p.repeat(30), node));
  for (const name of names) {
    assert.ok(name.length <= 253, String(name.length));
    assert.match(name, /^req-[a-z0-9.-]*[a-z0-9]$/);
  }
  assert.notEqual(names[0], names[1]);
});

Deno.test("blockRequestName() gives two nodes two names, however the dashes fall", () => {
  const name = blockRequestName("prod-gpu", "1");
  assert.notEqual(name, blockRequestName("prod", "gpu-1"));
  assert.match(name, /^req-prod-gpu-1-[0-9a-f]{16}$/);
  assert.equal(name, blockRequestName("prod-gpu", "1"));
});

Deno.test("blockRequestName() is upstream's where that is unmistakable", () => {
  assert.equal(blockRequestName("default", "node-1"), "req-default-node-1");
});
