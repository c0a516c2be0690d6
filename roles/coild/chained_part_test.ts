import assert from "node:assert/strict";
import { settle, untilStopped } from "../../lib/async/testing.ts";
import { openLibc } from "../../lib/linux/mod.ts";
import { connectChained } from "./chained_part.ts";
import type { NodeDependencies } from "./node_part.ts";

// Loaded with the first socket; within a test that would count as a leak.
openLibc();

Deno.test("a node whose pods another plugin connects is ready when its pods are known, and not before", async () => {
  await using stack = new AsyncDisposableStack();
  const known = Promise.withResolvers<void>();
  const stop = new AbortController();
  const { readiness, run, loops, checkNetwork } = connectChained({
    nodeName: "n1",
    pods: { synced: () => known.promise },
    stack,
  } as unknown as NodeDependencies);
  assert.deepEqual(loops, {});
  assert.equal(checkNetwork(), true);
  let hasEnded = false;
  const { signal } = stop;
  const running = untilStopped(run(signal), signal).finally(() =>
    hasEnded = true
  );
  await settle();
  assert.equal(readiness.check(), "the API server has not answered yet");
  known.resolve();
  await settle();
  assert.equal(readiness.check(), true);
  assert.equal(hasEnded, false);
  stop.abort();
  await running;
});
