import assert from "node:assert/strict";
import type { AddressBlock, BlockRequest } from "../../../lib/api/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { Registry } from "../../../lib/telemetry/mod.ts";
import { IpamMetrics } from "../ipam/metrics.ts";
import { BlockReports, REASON_NODE_LIMIT } from "./block_reports.ts";

function setUp() {
  const registry = new Registry();
  const events: string[] = [];
  const reports = new BlockReports({
    events: {
      event: ({ kind, name, uid }, { type, reason, message }) =>
        void events.push(
          `${type} ${reason} ${kind} ${name} ${uid}: ${message}`,
        ),
    },
    metrics: new IpamMetrics(registry),
    nodes: {
      get: (name) =>
        name === "n1" ? { metadata: { name, uid: "u1" } } : undefined,
    },
  });
  return { events, lines: loggedLines(), registry, reports };
}

function requestOf(uid: string): BlockRequest {
  const spec = { nodeName: "n1", poolName: "default" };
  return { metadata: { name: `r-${uid}`, uid }, spec } as BlockRequest;
}

Deno.test("BlockReports counts each answer, and makes an Event on the Node of a limit alone", async () => {
  const { events, lines, registry, reports } = setUp();
  reports.answered(requestOf("1"), { result: "allocated", block: "default-0" });
  const refusal = { result: "failed", message: "No" } as const;
  reports.answered(requestOf("2"), { ...refusal, reason: "OutOfBlocks" });
  reports.answered(requestOf("3"), { ...refusal, reason: REASON_NODE_LIMIT });
  assert.deepEqual(events, ["Warning BlockLimitReached Node n1 u1: No"]);
  const text = await registry.metrics();
  assert.match(text, /\{pool="default",result="allocated"\} 1$/m);
  assert.match(text, /\{pool="default",result="failed"\} 2$/m);
  assert.deepEqual(
    lines.map((line) => {
      const { ts: _, ...record } = JSON.parse(line);
      return record;
    }),
    [
      {
        level: "info",
        logger: "blockrequest-reconciler",
        msg: "Allocated block",
        pool: "default",
        node: "n1",
        block: "default-0",
      },
      ...["OutOfBlocks", REASON_NODE_LIMIT].map((reason) => ({
        level: "warn",
        logger: "blockrequest-reconciler",
        msg: "Refused block",
        pool: "default",
        node: "n1",
        reason,
        detail: "No",
      })),
    ],
  );
});

Deno.test("BlockReports says of Nodes, also of those that are gone, what became of them", () => {
  const { events, reports } = setUp();
  reports.disbelieved({ node: "n1", message: "Too many" });
  reports.released("n2", "Two blocks");
  const metadata = { name: "default-3", uid: "b3" };
  reports.releaseFailed({ metadata } as AddressBlock, new Error("refused"));
  assert.deepEqual(events, [
    "Warning PodCountTooLarge Node n1 u1: Too many",
    "Normal BlocksReleased Node n2 : Two blocks",
    "Warning ReleaseFailed AddressBlock default-3 b3: Cannot release the block of a deleted node: refused",
  ]);
});
