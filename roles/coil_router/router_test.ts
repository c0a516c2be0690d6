import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import type { GatewayRoute, SyncResult } from "../../lib/routing/mod.ts";
import { isOurs } from "./route_watch.ts";
import { Router, type RouterDependencies } from "./router.ts";

const DONE: SyncResult = {
  added: 0,
  moved: 0,
  removed: 0,
  failures: [],
  foreign: [],
};

const FAILURE = {
  destination: "10.2.0.0/27",
  error: new Error("EHOSTUNREACH"),
};

interface Rig {
  readonly router: Router;
  /** The routes of each call of `sync`. */
  readonly calls: (readonly GatewayRoute[])[];
  readonly metrics: { routes: number; failures: number }[];
  readonly repairs: { count: number };
  /** Resolves when `sync` has been called so many times. */
  called(times: number): Promise<void>;
}

function rig(
  outcomes: readonly (SyncResult | Error)[],
  options: Partial<RouterDependencies> = {},
): Rig {
  const calls: (readonly GatewayRoute[])[] = [];
  const metrics: Rig["metrics"] = [];
  const repairs = { count: 0 };
  const waiting: { times: number; resolve: () => void }[] = [];
  const gateway = Address.parse("192.168.0.2");
  const router = new Router({
    nodeName: "self",
    view: {
      nodes: new Map([["other", { ipv4: gateway }]]),
      blocks: [{
        name: "p-0",
        node: "other",
        prefixes: { ipv4: Prefix.parse("10.2.0.0/27") },
      }],
      synced: () => Promise.resolve(),
    },
    sync: (routes) => {
      const outcome = outcomes[calls.length] ?? DONE;
      calls.push(routes);
      for (const { times, resolve } of waiting) {
        if (times <= calls.length) resolve();
      }
      return outcome instanceof Error
        ? Promise.reject(outcome)
        : Promise.resolve(outcome);
    },
    metrics: {
      synced: (counts) => metrics.push(counts),
      repaired: () => repairs.count++,
    },
    intervalMs: 3_600_000,
    retryMs: { initialMs: 1, maxMs: 2 },
    ...options,
  });
  return {
    router,
    calls,
    metrics,
    repairs,
    called: (times) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      if (calls.length >= times) resolve();
      waiting.push({ times, resolve });
      return promise;
    },
  };
}

async function running(
  { router }: Rig,
  body: () => Promise<void>,
): Promise<void> {
  const controller = new AbortController();
  const ended = router.run(controller.signal);
  try {
    await body();
  } finally {
    controller.abort();
    await ended;
  }
}

Deno.test("Router syncs at the start and is ready then", async () => {
  const it = rig([]);
  assert.equal(it.router.hasSynced, false);
  await running(it, () => it.called(1));
  assert.equal(it.router.hasSynced, true);
  assert.equal(`${it.calls[0]?.[0]?.destination}`, "10.2.0.0/27");
  assert.deepEqual(it.metrics, [{ routes: 1, failures: 0 }]);
});

Deno.test("Router syncs again after a change, long before the interval", async () => {
  const it = rig([]);
  await running(it, async () => {
    await it.called(1);
    it.router.trigger();
    it.router.trigger();
    await it.called(2);
  });
  assert.equal(it.calls.length, 2);
});

Deno.test("Router syncs again after the interval without a change", async () => {
  const it = rig([], { intervalMs: 1 });
  await running(it, () => it.called(3));
});

Deno.test("W44: Router counts a refused route and tries again", async () => {
  const it = rig([{ ...DONE, failures: [FAILURE] }]);
  await running(it, () => it.called(2));
  assert.deepEqual(it.metrics[0], { routes: 0, failures: 1 });
  assert.deepEqual(it.metrics[1], { routes: 1, failures: 0 });
});

Deno.test("Router counts a route that cannot be removed as failed, not as missing", async () => {
  const stale = { ...FAILURE, destination: "10.9.0.0/27" };
  const it = rig([{ ...DONE, failures: [stale] }]);
  await running(it, () => it.called(1));
  assert.deepEqual(it.metrics[0], { routes: 1, failures: 1 });
});

Deno.test("W44: Router outlives a kernel that does not answer", async () => {
  const it = rig([new Error("EIO"), new Error("EIO")]);
  await running(it, async () => {
    await it.called(2);
    assert.equal(it.router.hasSynced, false);
    await it.called(3);
  });
  assert.equal(it.router.hasSynced, true);
});

Deno.test("Router stops on its signal while the API server is away", async () => {
  const view = {
    nodes: new Map(),
    blocks: [],
    synced: () => new Promise<void>(() => {}),
  };
  const it = rig([], { view });
  await assert.rejects(
    running(it, () => Promise.resolve()),
    { name: "AbortError" },
  );
  assert.equal(it.calls.length, 0);
});

Deno.test("Router counts what others removed, not what is new or was refused before", async () => {
  const added = { ...DONE, added: 1 };
  const refused = { ...DONE, failures: [FAILURE] };
  // New at first; removed; refused, and set then.
  const it = rig([added, added, refused, added, DONE], { intervalMs: 1 });
  await running(it, () => it.called(5));
  assert.equal(it.repairs.count, 1);
});

Deno.test("Router does not take new blocks for what others removed", async () => {
  const block = (index: number) => ({
    name: `p-${index}`,
    node: "other",
    prefixes: { ipv4: Prefix.parse(`10.2.${index}.0/27`) },
  });
  const blocks = [block(0)];
  const added = { ...DONE, added: 1 };
  const it = rig([added, added, DONE], {
    intervalMs: 1,
    view: {
      nodes: new Map([["other", { ipv4: Address.parse("192.168.0.2") }]]),
      get blocks() {
        return blocks;
      },
      synced: () => Promise.resolve(),
    },
  });
  await running(it, async () => {
    await it.called(1);
    blocks.push(block(1));
    await it.called(3);
  });
  assert.equal(it.calls[1]?.length, 2);
  assert.equal(it.repairs.count, 0);
});

Deno.test("isOurs() tells which links matter", () => {
  const links = new Set([2]);
  assert.equal(isOurs({ kind: "route", table: 254 }, links), true);
  assert.equal(isOurs({ kind: "overflow" }, links), true);
  assert.equal(isOurs({ kind: "link", index: 2 }, links), true);
  assert.equal(isOurs({ kind: "address", index: 2 }, links), true);
  // A pod's.
  assert.equal(isOurs({ kind: "link", index: 7 }, links), false);
  assert.equal(isOurs({ kind: "address", index: 7 }, links), false);
  // All routes are gone: any link may bring them back.
  assert.equal(isOurs({ kind: "link", index: 7 }, new Set()), true);
});
