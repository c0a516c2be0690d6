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
) {
  const set: string[] = [];
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
        return Promise.resolve(true);
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
  });
  return {
    guard,
    set,
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
  const end = performance.now() + 10_000;
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

Deno.test("run() goes on where the kernel does not let it listen, and says so once", async () => {
  const { guard, listening, deafen } = guardOf([link(1)]);
  deafen();
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  await running(guard, async () => {
    await until(() => listening.tries === 2);
    await sleep(10);
  });
  const told = lines.filter((line) => line.includes("Cannot subscribe"));
  assert.equal(told.length, 1);
});
