import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { sleep } from "../../lib/async/mod.ts";
import type {
  GatewayRoute,
  GatewayRoutes,
  RouteChanges,
  SyncResult,
} from "../../lib/routing/mod.ts";
import { RouteBook, type RoutedBlock } from "./route_book.ts";
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

/** A call to the kernel: all routes, or changes of some. */
type Call =
  | { readonly kind: "sync"; readonly routes: GatewayRoutes }
  | { readonly kind: "change"; readonly changes: RouteChanges };

interface Rig {
  readonly router: Router;
  readonly book: RouteBook;
  readonly calls: Call[];
  readonly metrics: { routes: number; failures: number }[];
  readonly repairs: { count: number };
  /** Resolves when the kernel has been called so many times. */
  called(times: number): Promise<void>;
}

function rig(
  outcomes: readonly (SyncResult | Error)[],
  options: Partial<RouterDependencies> = {},
): Rig {
  const calls: Call[] = [];
  const metrics: Rig["metrics"] = [];
  const repairs = { count: 0 };
  const waiting: { times: number; resolve: () => void }[] = [];
  const book = new RouteBook("self");
  book.setNode("other", { ipv4: Address.parse("192.168.0.2") });
  book.setBlock(blockOf(0));
  const call = (one: Call) => {
    const outcome = outcomes[calls.length] ?? DONE;
    calls.push(one);
    for (const { times, resolve } of waiting) {
      if (times <= calls.length) resolve();
    }
    return outcome instanceof Error
      ? Promise.reject(outcome)
      : Promise.resolve(outcome);
  };
  const router = new Router({
    book,
    synced: () => Promise.resolve(),
    routes: {
      sync: (routes) => call({ kind: "sync", routes }),
      change: (changes) => call({ kind: "change", changes }),
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
    book,
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

function blockOf(index: number, node = "other"): RoutedBlock {
  return { name: `p-${index}`, node, ipv4: `10.2.${index}.0/27` };
}

/** A call in a line: `sync 2`, `add 10.2.1.0/27`. */
function textOf(call: Call | undefined): string {
  if (call === undefined) return "none";
  if (call.kind === "sync") return `sync ${call.routes.gateways.size}`;
  return Object.entries(call.changes).flatMap(([kind, routes]) =>
    routes.map(({ destination, gateway }: GatewayRoute) =>
      `${kind} ${destination} via ${gateway}`
    )
  ).join(", ");
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
  assert.equal(textOf(it.calls[0]), "sync 1");
  assert.deepEqual(it.metrics, [{ routes: 1, failures: 0 }]);
});

Deno.test("Router changes the routes of a changed block alone, long before the interval", async () => {
  const it = rig([]);
  await running(it, async () => {
    await it.called(1);
    it.book.setBlock(blockOf(1));
    it.router.trigger();
    it.router.trigger();
    await it.called(2);
    it.book.setNode("third", { ipv4: Address.parse("192.168.0.3") });
    it.book.setBlock(blockOf(1, "third"), { before: blockOf(1) });
    it.router.trigger();
    await it.called(3);
    it.book.setBlock(undefined, { before: blockOf(1, "third") });
    it.router.trigger();
    await it.called(4);
  });
  assert.deepEqual(it.calls.map(textOf), [
    "sync 1",
    "add 10.2.1.0/27 via 192.168.0.2",
    "move 10.2.1.0/27 via 192.168.0.3",
    "remove 10.2.1.0/27 via 192.168.0.3",
  ]);
  assert.deepEqual(it.metrics.map(({ routes }) => routes), [1, 2, 2, 1]);
});

Deno.test("Router pauses longer between changes that go on coming", async () => {
  const times: number[] = [];
  const { promise: enough, resolve } = Promise.withResolvers<void>();
  const next = () => {
    times.push(performance.now());
    it.book.setBlock(blockOf(times.length));
    it.router.trigger();
    if (times.length === 6) resolve();
    return Promise.resolve(DONE);
  };
  const it = rig([], { routes: { sync: next, change: next } });
  await running(it, () => enough);
  const gaps = times.slice(1).map((ms, i) => ms - (times[i] ?? 0));
  for (const [i, leastMs] of [100, 200, 400, 500, 500].entries()) {
    assert.ok((gaps[i] ?? 0) > leastMs - 5, `${gaps}`);
  }
});

Deno.test("Router asks the kernel nothing for a change of no route", async () => {
  const it = rig([]);
  await running(it, async () => {
    await it.called(1);
    it.book.setBlock(blockOf(1, "unknown"));
    it.router.trigger();
    await sleep(150);
  });
  assert.equal(it.calls.length, 1);
});

Deno.test("Router compares all routes when somebody else may have changed some", async () => {
  const it = rig([DONE, { ...DONE, added: 1 }]);
  await running(it, async () => {
    await it.called(1);
    it.router.distrust();
    await it.called(2);
  });
  assert.equal(textOf(it.calls[1]), "sync 1");
  assert.equal(it.repairs.count, 1);
});

Deno.test("Router rests after a long comparison, and changes single routes all the same", async () => {
  const slow = async (routes: GatewayRoutes) => {
    compared.push(routes);
    await sleep(250);
    return DONE;
  };
  const compared: unknown[] = [];
  const changed: unknown[] = [];
  const it = rig([], {
    routes: {
      sync: slow,
      change: (changes) => {
        changed.push(changes);
        return Promise.resolve(DONE);
      },
    },
    intervalMs: 1,
  });
  await running(it, async () => {
    while (!it.router.hasSynced) await sleep(5);
    for (let index = 1; index <= 3; index++) {
      it.book.setBlock(blockOf(index));
      it.router.distrust();
      for (let n = 0; n < 1_000 && changed.length < index; n++) await sleep(5);
    }
  });
  // 250 ms of work: five seconds without another, although one is asked for.
  assert.equal(compared.length, 1);
  assert.equal(changed.length, 3);
});

Deno.test("Router syncs again after the interval without a change", async () => {
  const it = rig([], { intervalMs: 1 });
  await running(it, () => it.called(3));
  assert.deepEqual(it.calls.map(({ kind }) => kind), ["sync", "sync", "sync"]);
});

Deno.test("W44: Router counts a refused route and tries again, that one alone", async () => {
  const it = rig([{ ...DONE, failures: [FAILURE] }]);
  await running(it, () => it.called(2));
  assert.equal(textOf(it.calls[1]), "add 10.2.0.0/27 via 192.168.0.2");
  assert.deepEqual(it.metrics[0], { routes: 0, failures: 1 });
  assert.deepEqual(it.metrics[1], { routes: 1, failures: 0 });
});

Deno.test("Router tries a change again that the kernel refused", async () => {
  const failures = [{ ...FAILURE, destination: "10.2.1.0/27" }];
  const it = rig([DONE, { ...DONE, failures }]);
  await running(it, async () => {
    await it.called(1);
    it.book.setBlock(blockOf(1));
    it.router.trigger();
    await it.called(3);
  });
  assert.equal(textOf(it.calls[1]), "add 10.2.1.0/27 via 192.168.0.2");
  assert.equal(textOf(it.calls[2]), "add 10.2.1.0/27 via 192.168.0.2");
  assert.deepEqual(it.metrics.slice(1), [
    { routes: 1, failures: 1 },
    { routes: 2, failures: 0 },
  ]);
});

Deno.test("Router reports a block that overlaps another, whose route stays", async () => {
  const it = rig([]);
  await running(it, async () => {
    await it.called(1);
    it.book.setNode("third", { ipv4: Address.parse("192.168.0.3") });
    it.book.setBlock({ ...blockOf(0, "third"), name: "q-0" });
    it.router.trigger();
    await it.called(2);
  });
  assert.equal(
    textOf(it.calls[1]),
    "conflicting 10.2.0.0/27 via 192.168.0.3",
  );
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

Deno.test("Router compares all routes after a change whose outcome is not known", async () => {
  const it = rig([DONE, new Error("EIO")]);
  await running(it, async () => {
    await it.called(1);
    it.book.setBlock(blockOf(1));
    it.router.trigger();
    await it.called(3);
  });
  assert.equal(textOf(it.calls[2]), "sync 2");
});

Deno.test("Router stops on its signal while the API server is away", async () => {
  const synced = () => new Promise<void>(() => {});
  const it = rig([], { synced });
  await assert.rejects(
    running(it, () => Promise.resolve()),
    { name: "AbortError" },
  );
  assert.equal(it.calls.length, 0);
});

Deno.test("Router counts what others removed, not what is new or was refused before", async () => {
  const added = { ...DONE, added: 1 };
  // New at first; removed.
  const it = rig([added, added, DONE], { intervalMs: 1 });
  await running(it, () => it.called(3));
  assert.equal(it.repairs.count, 1);
  // Refused, and set then by a comparison.
  const refused = { ...DONE, failures: [FAILURE] };
  const then = rig([refused, added, DONE], {
    intervalMs: 1,
    retryMs: { initialMs: 60_000, maxMs: 60_000 },
  });
  await running(then, () => then.called(3));
  assert.deepEqual(then.calls.map(({ kind }) => kind), [
    "sync",
    "sync",
    "sync",
  ]);
  assert.equal(then.repairs.count, 0);
});

Deno.test("Router does not take new blocks for what others removed", async () => {
  const added = { ...DONE, added: 1 };
  const it = rig([added, added, DONE], { intervalMs: 1 });
  await running(it, async () => {
    await it.called(1);
    it.book.setBlock(blockOf(1));
    await it.called(3);
  });
  assert.equal(textOf(it.calls[1]), "sync 2");
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
