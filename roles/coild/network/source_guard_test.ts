import assert from "node:assert/strict";
import { KeyedMutex, sleep, untilAborted } from "../../../lib/async/mod.ts";
import type { Listener, TableNotification } from "../../../lib/netlink/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import type { PodLink, PodSources } from "../../../lib/podnet/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { SourceChoice } from "../cluster/any_source.ts";
import { SourceGuard } from "./source_guard.ts";

const signal = new AbortController().signal;

function link(n: number, sources?: PodSources): PodLink {
  return {
    pool: "default",
    containerId: `c${n}`,
    ifname: "eth0",
    index: n,
    hostName: `veth${n}`,
    up: true,
    ...(sources && { sources }),
    addresses: { ipv4: Address.parse(`10.0.0.${n}`) },
  };
}

/** A guard of these links. What it sets is noted. */
function guardOf(
  links: readonly PodLink[],
  choices: Readonly<Record<string, SourceChoice>> = {},
  { lookMs }: { readonly lookMs?: number } = {},
) {
  const set: string[] = [];
  const repaired: string[] = [];
  const kernel = { isChanged: true, failsToList: false };
  const looks = { table: 0, links: 0 };
  const listening = { tries: 0 };
  let told = Promise.withResolvers<TableNotification[]>();
  let isDeaf = false;
  const locks = new KeyedMutex();
  let failure: Error | undefined;
  const guard = new SourceGuard({
    locks,
    table: {
      ensure: () => {
        looks.table++;
        if (failure !== undefined) return Promise.reject(failure);
        return Promise.resolve(kernel.isChanged);
      },
      countForged: () => Promise.resolve({ ipv4: 1, ipv6: 2 }),
      watch: (): Listener<TableNotification> => {
        listening.tries++;
        if (isDeaf) throw new Error("refused");
        return {
          next: async ({ signal }) => {
            const stopped = untilAborted(signal).then(() => []);
            const found = await Promise.race([told.promise, stopped]);
            signal.throwIfAborted();
            told = Promise.withResolvers();
            return found;
          },
          [Symbol.asyncDispose]: () => Promise.resolve(),
        };
      },
    },
    network: {
      list: () => {
        looks.links++;
        if (kernel.failsToList) return Promise.reject(new Error("no memory"));
        return Promise.resolve(links);
      },
      setSources: (pod, sources) => {
        set.push(`${pod.containerId} ${sources}`);
        return Promise.resolve(true);
      },
    },
    watch: {
      choiceOf: (address) => choices[address.toString()],
      subscribe: () => ({ [Symbol.dispose]: () => {} }),
    },
    reports: { repaired: (what) => void repaired.push(...what) },
    lookMs,
  });
  return {
    guard,
    set,
    kernel,
    repaired,
    locks,
    looks,
    listening,
    fail: (error?: Error) => void (failure = error),
    deafen: () => void (isDeaf = true),
    tell: () => told.resolve([{ kind: "table" }]),
  };
}

/** Runs the guard while `run` does. */
async function running(
  guard: SourceGuard,
  run: () => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const ended = guard.run(stop.signal);
  try {
    await run();
  } finally {
    stop.abort();
    await Promise.allSettled([ended]);
  }
}

async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + 60_000;
  while (!holds()) {
    assert.ok(performance.now() < end, `not so: ${holds}`);
    await sleep(2);
  }
}

Deno.test("settle() gives each link what its pod may send, and touches no other", async () => {
  const { guard, set } = guardOf(
    [link(1), link(2, "own"), link(3, "own"), link(4, "any"), link(5, "any")],
    { "10.0.0.3": "any", "10.0.0.4": "refused", "10.0.0.2": "own" },
  );
  await guard.settle({ signal });
  assert.deepEqual(set, ["c1 own", "c3 any", "c4 own"]);
  // The third, and the last, of which the cache knows nothing yet.
  assert.equal(guard.unrestricted, 2);
});

Deno.test("settle() leaves a pod alone that is being worked on", async () => {
  const { guard, set, locks } = guardOf([link(1), link(2)]);
  {
    using _lock = await locks.lock("c1:eth0", { signal });
    await guard.settle({ signal });
  }
  assert.deepEqual(set, ["c2 own"]);
});

Deno.test("ensureTable() does not throw where the kernel cannot have the table, and tells when it can", async () => {
  const { guard, fail } = guardOf([]);
  await guard.ensureTable();
  fail(new Error("no nft_fib_inet"));
  await guard.ensureTable();
  assert.equal(guard.isInPlace, false);
  assert.equal(await guard.countForged(), undefined);
  fail();
  await guard.ensureTable();
  assert.equal(guard.isInPlace, true);
  assert.deepEqual(await guard.countForged(), { ipv4: 1, ipv6: 2 });
});

Deno.test("run() looks at the table when somebody has changed it, and not at the links", async () => {
  const { guard, looks, tell } = guardOf([link(1)]);
  await guard.ensureTable();
  await running(guard, async () => {
    await until(() => looks.table === 2 && looks.links === 1);
    tell();
    await until(() => looks.table === 3);
    await sleep(50);
    assert.deepEqual(looks, { table: 3, links: 1 });
  });
});

Deno.test("ensureTable() reports what another program has done to the table, and nothing else", async () => {
  const { guard, kernel, repaired, fail } = guardOf([]);
  assert.equal(await guard.ensureTable(), false, "the first table");
  kernel.isChanged = false;
  assert.equal(await guard.ensureTable(), false, "as it was");
  assert.deepEqual(repaired, []);
  kernel.isChanged = true;
  assert.equal(await guard.ensureTable(), true);
  assert.deepEqual(repaired, ["sources"]);
  fail(new Error("no nft_fib_inet"));
  assert.equal(await guard.ensureTable(), false);
  fail();
  assert.equal(await guard.ensureTable(), false, "a first table again");
  assert.deepEqual(repaired, ["sources"]);
});

Deno.test("run() looks at the table from time to time", async () => {
  const { guard, kernel, looks } = guardOf([], {}, { lookMs: 10 });
  kernel.isChanged = false;
  await running(guard, () => until(() => looks.table > 5));
});

Deno.test("run() goes on when it could not look at the links, and says so", async () => {
  const { guard, kernel, looks, tell } = guardOf([link(1)]);
  kernel.failsToList = true;
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  await guard.ensureTable();
  await running(guard, async () => {
    await until(() => lines.some((line) => line.includes("can forge sources")));
    await until(() => looks.table === 2);
    tell();
    await until(() => looks.table === 3);
  });
  assert.equal(looks.links, 1);
});

/** What is logged where the kernel does not let the guard listen. */
async function deafness(
  { guard, listening, deafen }: ReturnType<typeof guardOf>,
): Promise<readonly string[]> {
  deafen();
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  await guard.ensureTable();
  await running(guard, async () => {
    await until(() => listening.tries === 2);
    await sleep(10);
  });
  return lines.filter((line) => line.includes("Cannot subscribe"));
}

Deno.test("run() goes on where the kernel does not let it listen, and says so once", async () => {
  assert.equal((await deafness(guardOf([link(1)]))).length, 1);
});

Deno.test("run() says nothing of listening where the kernel cannot have the table", async () => {
  const without = guardOf([link(1)]);
  without.fail(new Error("no nft_fib_inet"));
  assert.deepEqual(await deafness(without), []);
});
