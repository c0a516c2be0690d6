import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { KernelSync, type KernelSyncOptions } from "./kernel_sync.ts";

configureLogging({ write: () => {} });

const table = (...texts: string[]) =>
  new Map(texts.map((text) => [text, Address.parse(text)]));

/** A kernel that keeps a set, and a sync that runs for the test. */
async function following(
  test: (fixture: {
    sync: KernelSync;
    calls: string[];
    kernel: Set<string>;
    want: (...texts: string[]) => void;
    fail: (times: number) => void;
    signal: AbortSignal;
  }) => Promise<void>,
  options: Partial<KernelSyncOptions> = {},
): Promise<void> {
  const calls: string[] = [];
  const kernel = new Set<string>(["192.0.2.99"]);
  let wanted = table("10.0.0.1");
  let failures = 0;
  const act = async (name: string, change: () => void) => {
    calls.push(name);
    await sleep(5);
    if (failures-- > 0) throw new Error("the kernel says no");
    change();
  };
  const sync = new KernelSync({
    kernel: {
      setClients: (all) =>
        act(`set ${all.join(" ")}`, () => {
          kernel.clear();
          for (const address of all) kernel.add(`${address}`);
        }),
      changeClients: ({ add, remove }) =>
        act(`+${add.join(" ")} -${remove.join(" ")}`, () => {
          for (const address of add) kernel.add(`${address}`);
          for (const address of remove) kernel.delete(`${address}`);
        }),
    },
    wanted: () => wanted,
    retryMs: { initialMs: 5, maxMs: 10 },
    ...options,
  });
  const stop = new AbortController();
  const running = sync.run(stop.signal);
  try {
    await test({
      sync,
      calls,
      kernel,
      signal: stop.signal,
      want: (...texts) => {
        wanted = table(...texts);
        sync.trigger();
      },
      fail: (times) => failures = times,
    });
  } finally {
    stop.abort();
    await running;
  }
}

Deno.test("KernelSync sets all at first, then what changed, together", async () => {
  await following(async ({ sync, calls, kernel, want, signal }) => {
    assert.equal(sync.hasSynced, false);
    await sync.flushed({ signal });
    assert.equal(sync.hasSynced, true);
    assert.deepEqual(calls, ["set 10.0.0.1"]);
    want("10.0.0.1", "10.0.0.2");
    want("10.0.0.2", "10.0.0.3");
    want("10.0.0.2", "10.0.0.4");
    await sync.flushed({ signal });
    assert.deepEqual(calls.slice(1), ["+10.0.0.2 10.0.0.4 -10.0.0.1"]);
    assert.deepEqual([...kernel].sort(), ["10.0.0.2", "10.0.0.4"]);
    await sync.flushed({ signal });
    assert.equal(calls.length, 2, "asked the kernel for nothing");
  });
});

Deno.test("KernelSync.flushed() includes what came while the kernel was busy", async () => {
  await following(async ({ sync, kernel, want, signal }) => {
    const first = sync.flushed({ signal });
    await sleep(1);
    want("10.0.0.7");
    await sync.flushed({ signal });
    assert.deepEqual([...kernel], ["10.0.0.7"]);
    await first;
  });
});

Deno.test("KernelSync says so when the kernel refuses, and sets all again until it works", async () => {
  const results: string[] = [];
  await following(async ({ sync, calls, kernel, want, fail, signal }) => {
    await sync.flushed({ signal });
    fail(2);
    want("10.0.0.2");
    await assert.rejects(sync.flushed({ signal }), /the kernel says no/);
    assert.equal(sync.hasSynced, true);
    assert.equal(sync.isFailing, true);
    await sync.flushed({ signal }).catch(() => sync.flushed({ signal }));
    assert.equal(sync.isFailing, false);
    assert.deepEqual(calls.slice(1), [
      "+10.0.0.2 -10.0.0.1",
      "set 10.0.0.2",
      "set 10.0.0.2",
    ]);
    assert.deepEqual([...kernel], ["10.0.0.2"]);
    assert.deepEqual(results, ["ok", "error", "error", "ok"]);
  }, { onSync: (result) => results.push(result) });
});

Deno.test("KernelSync repairs what others broke", async () => {
  await following(async ({ sync, kernel, signal }) => {
    await sync.flushed({ signal });
    kernel.clear();
    for (let n = 0; n < 100 && kernel.size === 0; n++) await sleep(5);
    assert.deepEqual([...kernel], ["10.0.0.1"]);
  }, { repairMs: 20 });
});

Deno.test("KernelSync fails from a repair that the kernel refuses to one that it takes", async () => {
  await following(async ({ sync, calls, fail, signal }) => {
    await sync.flushed({ signal });
    fail(Infinity);
    for (let n = 0; n < 1000 && !sync.isFailing; n++) await sleep(5);
    assert.equal(sync.isFailing, true);
    fail(0);
    for (let n = 0; n < 1000 && sync.isFailing; n++) await sleep(5);
    assert.equal(sync.isFailing, false);
    assert.deepEqual([...new Set(calls)], ["set 10.0.0.1"], "all, each time");
  }, { repairMs: 20 });
});

Deno.test("KernelSync.flushed() does not outlive its caller, nor the sync", async () => {
  let waiting: Promise<void> | undefined;
  await following(async ({ sync, signal }) => {
    const caller = new AbortController();
    const gone = sync.flushed({ signal: caller.signal });
    caller.abort();
    await assert.rejects(gone, { name: "AbortError" });
    await sync.flushed({ signal });
    waiting = sync.flushed({ signal: new AbortController().signal });
    waiting.catch(() => {});
  });
  assert.ok(waiting);
  await waiting.catch((error) => assert.equal(error.name, "AbortError"));
});

Deno.test("KernelSync sets the whole state when something of it was removed", async () => {
  await following(async ({ sync, calls, kernel, signal }) => {
    await sync.flushed({ signal });
    kernel.clear();
    calls.length = 0;
    await sync.repair({ signal });
    assert.deepEqual(calls, ["set 10.0.0.1"]);
    assert.deepEqual([...kernel], ["10.0.0.1"]);
    // Not again.
    await sync.flushed({ signal });
    assert.equal(calls.length, 1);
  });
});
