import assert from "node:assert/strict";
import { statusDelayMs } from "./subscriptions.ts";

Deno.test("statusDelayMs() is longer the more blocks there are, and none of a pool that is being deleted", () => {
  const metadata = { name: "default" };
  assert.equal(statusDelayMs({ metadata }, { blocks: 0 }), 300);
  assert.equal(statusDelayMs({ metadata }, { blocks: 20_000 }), 1_100);
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  const going = { metadata: { ...metadata, deletionTimestamp } };
  assert.equal(statusDelayMs(going, { blocks: 20_000 }), 0);
});
