import assert from "node:assert/strict";
import type { MigrationStatus } from "./migration_status.ts";
import { phaseOf, statusText } from "./report.ts";

type Facts = Omit<MigrationStatus, "phase" | "next">;

const NOTHING: Facts = {
  record: {},
  v1Objects: [],
  v1AtWork: false,
  crds: true,
  pools: 0,
  reservedBlocks: 0,
  reservedInUse: 0,
  problems: [],
  pods: { toReplace: 0, byNode: {}, kept: {} },
  coild: { pods: 3, ready: 3, old: 0 },
};
const WRITTEN = { dumpedAt: "t1", pools: "2", blocks: "4" };
const DUMPED = { ...WRITTEN, v1RemovedAt: "t2" };
const REMOVED = { ...DUMPED, removingBlocksAt: "t2" };
const PODS = { toReplace: 5, byNode: { n1: 5 }, kept: {} };

Deno.test("phaseOf() tells how far a migration is", () => {
  const phases: readonly (readonly [string, Partial<Facts>])[] = [
    ["nothing to migrate", {}],
    ["not begun", { v1AtWork: true }],
    ["v1 at work", { v1AtWork: true, record: WRITTEN }],
    ["dump unfinished", { record: WRITTEN, crds: false }],
    ["dump unfinished", {
      record: WRITTEN,
      pools: 2,
      reservedBlocks: 4,
      pods: PODS,
    }],
    ["dumped", { record: DUMPED, crds: false }],
    ["dumped", { record: DUMPED }],
    ["manifest applied in part", { record: DUMPED, reservedBlocks: 4 }],
    ["manifest applied in part", {
      record: DUMPED,
      pools: 2,
      reservedBlocks: 3,
      pods: PODS,
    }],
    ["waiting for v2", {
      record: DUMPED,
      pools: 2,
      reservedBlocks: 4,
      pods: PODS,
      coild: { pods: 3, ready: 0, old: 0 },
    }],
    ["replacing pods", {
      record: DUMPED,
      pools: 2,
      reservedBlocks: 4,
      pods: PODS,
    }],
    ["releasing blocks", { record: DUMPED, pools: 2, reservedBlocks: 4 }],
    ["releasing blocks", { record: REMOVED, pools: 2, reservedBlocks: 1 }],
    ["restarting coild", { record: REMOVED, pools: 2 }],
    ["done", { record: { ...REMOVED, finishedAt: "t3" }, pools: 2 }],
  ];
  for (const [phase, facts] of phases) {
    assert.equal(phaseOf({ ...NOTHING, ...facts }).phase, phase);
  }
});

Deno.test("statusText() is for people", () => {
  const facts: Facts = {
    ...NOTHING,
    record: { ...DUMPED, podsAtStart: "9" },
    pools: 2,
    reservedBlocks: 4,
    reservedInUse: 3,
    pods: { ...PODS, kept: { "a/b": "no controller" } },
    problems: ["something"],
  };
  assert.equal(
    statusText({ ...phaseOf(facts), ...facts }),
    `Phase        replacing pods
Coil v1      removed t2
Manifest     written t1: 2 pools, 4 reserved blocks
Coil v2      resources installed, 2 pools
Reserved     4 blocks, 3 with pods
Pods of v1   5 of 9 to replace, 1 kept
Coild        3 of 3 pods ready
Next         coil migrate replace
  node n1: 5 pods to replace
  a/b: kept: no controller
  problem: something
`,
  );
});
