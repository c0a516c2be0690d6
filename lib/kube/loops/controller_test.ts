import assert from "node:assert/strict";
import { untilAborted } from "../../async/mod.ts";
import { createRegistry } from "../../telemetry/mod.ts";
import { Controller, type ControllerOptions } from "./controller.ts";
import { TerminalError } from "../http/errors.ts";
import { KubeMetrics } from "./metrics.ts";
import { FakeClock, settle } from "../../async/testing.ts";

async function running(
  options: Omit<ControllerOptions, "name" | "clock" | "random">,
  test: (controller: Controller, clock: FakeClock) => Promise<void>,
): Promise<void> {
  const clock = new FakeClock();
  const controller = new Controller({
    name: "test",
    clock,
    random: () => 0,
    ...options,
  });
  const abort = new AbortController();
  const run = controller.run(abort.signal);
  try {
    await test(controller, clock);
  } finally {
    abort.abort();
    await run;
  }
}

Deno.test("Controller tries again after longer and longer delays, for ever", async () => {
  const atMs: number[] = [];
  let clockOf: FakeClock | undefined;
  await running({
    reconcile: async () => {
      atMs.push(clockOf?.nowMs() ?? 0);
      throw new Error("not yet");
    },
  }, async (controller, clock) => {
    clockOf = clock;
    controller.enqueue("a");
    await clock.advance(400);
    assert.deepEqual(atMs, [0, 50, 150, 350]);
    await clock.advance(60 * 60_000);
    assert.ok(atMs.length > 60);
  });
});

Deno.test("Controller starts with the first delay again after a success", async () => {
  const atMs: number[] = [];
  let clockOf: FakeClock | undefined;
  await running({
    reconcile: async () => {
      atMs.push(clockOf?.nowMs() ?? 0);
      if (atMs.length !== 3) throw new Error("not yet");
      return { requeueAfterMs: 1000 };
    },
  }, async (controller, clock) => {
    clockOf = clock;
    controller.enqueue("a");
    await clock.advance(1200);
    assert.deepEqual(atMs, [0, 50, 150, 1150, 1200]);
  });
});

Deno.test("Controller leaves a TerminalError alone until the key comes again", async () => {
  let calls = 0;
  await running({
    reconcile: async () => {
      calls++;
      throw new TerminalError("never");
    },
  }, async (controller, clock) => {
    controller.enqueue("a");
    await clock.advance(60 * 60_000);
    assert.equal(calls, 1);
    controller.enqueue("a");
    await settle();
    assert.equal(calls, 2);
  });
});

Deno.test("Controller works on one key once at a time, and on several keys at once", async () => {
  const atWork: string[] = [];
  let most = 0;
  const release: (() => void)[] = [];
  await running({
    concurrency: 2,
    reconcile: async (key) => {
      assert.ok(!atWork.includes(key));
      atWork.push(key);
      most = Math.max(most, atWork.length);
      await new Promise<void>((resolve) => release.push(resolve));
      atWork.splice(atWork.indexOf(key), 1);
    },
  }, async (controller) => {
    for (const key of ["a", "b", "c", "a"]) controller.enqueue(key);
    await settle();
    controller.enqueue("a");
    assert.deepEqual(atWork, ["a", "b"]);
    for (let n = 0; n < 4; n++) {
      release.shift()?.();
      await settle();
    }
    assert.deepEqual(atWork, []);
    assert.equal(most, 2);
  });
});

Deno.test("Controller ends when its reconcilers have ended", async () => {
  let ended = false;
  await running({
    reconcile: async (_key, signal) => {
      await untilAborted(signal);
      await settle();
      ended = true;
    },
  }, async (controller) => {
    controller.enqueue("a");
    await settle();
  });
  assert.ok(ended);
});

Deno.test("Controller counts under controller-runtime's names", async () => {
  const registry = createRegistry({ defaults: false });
  const metrics = new KubeMetrics(registry);
  let fails = true;
  await running({
    metrics,
    reconcile: async () => {
      if (fails) throw new Error("once");
    },
  }, async (controller, clock) => {
    controller.enqueue("a");
    await settle();
    fails = false;
    await clock.advance(100);
    const text = await registry.metrics();
    for (
      const line of [
        'controller_runtime_reconcile_total{controller="test",result="success"} 1',
        'controller_runtime_reconcile_total{controller="test",result="error"} 1',
        'controller_runtime_reconcile_errors_total{controller="test"} 1',
        'controller_runtime_reconcile_time_seconds_count{controller="test"} 2',
        'workqueue_depth{name="test",controller="test",priority="0"} 0',
        'workqueue_adds_total{name="test",controller="test"} 2',
        'workqueue_retries_total{name="test",controller="test"} 1',
        'workqueue_queue_duration_seconds_count{name="test",controller="test"} 2',
        'workqueue_work_duration_seconds_count{name="test",controller="test"} 2',
        'workqueue_unfinished_work_seconds{name="test",controller="test"} 0',
      ]
    ) assert.ok(text.includes(line), `${line} in ${text}`);
  });
});

Deno.test("Controller measures how long keys wait and are worked on", async () => {
  const registry = createRegistry({ defaults: false });
  const metrics = new KubeMetrics(registry);
  let end = () => {};
  const assertLines = async (...lines: readonly string[]) => {
    const text = await registry.metrics();
    for (const line of lines) {
      assert.ok(text.includes(line), `${line} in ${text}`);
    }
  };
  const labels = 'name="test",controller="test"';
  await running({
    metrics,
    reconcile: () => new Promise<void>((resolve) => end = resolve),
  }, async (controller, clock) => {
    controller.enqueue("a");
    controller.enqueue("b");
    await settle();
    controller.enqueue("a");
    controller.enqueue("a");
    await clock.advance(5_000);
    // The work on "a" is under way; "b" waits, and so does "a", once.
    await assertLines(
      `workqueue_depth{${labels},priority="0"} 2`,
      `workqueue_adds_total{${labels}} 3`,
      `workqueue_unfinished_work_seconds{${labels}} 5`,
      `workqueue_longest_running_processor_seconds{${labels}} 5`,
      `workqueue_work_duration_seconds_count{${labels}} 0`,
      `workqueue_queue_duration_seconds_bucket{le="1e-8",${labels}} 1`,
    );
    end();
    await settle();
    await clock.advance(1_000);
    await assertLines(
      `workqueue_work_duration_seconds_sum{${labels}} 5`,
      `workqueue_work_duration_seconds_bucket{le="10",${labels}} 1`,
      `workqueue_work_duration_seconds_bucket{le="1",${labels}} 0`,
      // "a" for no time, "b" for 5 s.
      `workqueue_queue_duration_seconds_sum{${labels}} 5`,
      `workqueue_unfinished_work_seconds{${labels}} 1`,
    );
    end();
    await settle();
    // "a" again: it has waited for 6 s.
    await assertLines(`workqueue_queue_duration_seconds_sum{${labels}} 11`);
    end();
    await settle();
    await assertLines(
      `workqueue_depth{${labels},priority="0"} 0`,
      `workqueue_work_duration_seconds_count{${labels}} 3`,
      `workqueue_unfinished_work_seconds{${labels}} 0`,
    );
  });
});
