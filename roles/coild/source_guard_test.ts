import assert from "node:assert/strict";
import { KeyedMutex } from "../../lib/async/mod.ts";
import type { PodLink, PodSources } from "../../lib/podnet/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import type { SourceChoice } from "./any_source.ts";
import { SourceGuard } from "./source_guard.ts";

const signal = new AbortController().signal;

function link(n: number, sources?: PodSources): PodLink {
  return {
    ...{ pool: "default", containerId: `c${n}`, ifname: "eth0", index: n },
    ...{ hostName: `veth${n}`, up: true, ...(sources && { sources }) },
    addresses: { ipv4: Address.parse(`10.0.0.${n}`) },
  };
}

/** A guard of these links. What it sets is noted. */
function guardOf(
  links: readonly PodLink[],
  choices: Readonly<Record<string, SourceChoice>> = {},
) {
  const set: string[] = [];
  const locks = new KeyedMutex();
  let failure: Error | undefined;
  const guard = new SourceGuard({
    locks,
    table: {
      ensure: () =>
        failure === undefined ? Promise.resolve(true) : Promise.reject(failure),
      countForged: () => Promise.resolve({ ipv4: 1, ipv6: 2 }),
    },
    network: {
      list: () => Promise.resolve(links),
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
  return { guard, set, locks, fail: (error?: Error) => void (failure = error) };
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
