import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import { Reconciler, type ReconcilerOptions } from "./reconciler.ts";

const { signal } = new AbortController();

function linkOf(containerId: string) {
  return { containerId, ifname: "eth0", pool: "default", addresses: {} };
}

/** A node with these pods and husks, what was done there, and what of it fails. */
function siteOf(
  { pods = [], husks = [], intervalMs = 3_600_000 }: {
    readonly pods?: readonly string[];
    readonly husks?: readonly string[];
    readonly intervalMs?: number;
  },
) {
  const done: string[] = [];
  const failing = new Set<string>();
  const note = (what: string) => {
    if (failing.has(what)) throw new Error(`Cannot ${what}`);
    done.push(what);
    return Promise.resolve();
  };
  const names = (links: readonly { containerId: string; husk?: boolean }[]) =>
    links.map(({ containerId, husk }) =>
      husk ? `(${containerId})` : containerId
    )
      .join();
  const locks = new KeyedMutex();
  let surveys = 0;
  const reconciler = new Reconciler({
    intervalMs,
    locks,
    ipam: {
      list: () =>
        husks.map((name, generation) => ({
          ...linkOf(name),
          // A DEL and another ADD come while links are listed once more.
          generation: surveys < 2 ? generation : generation + 10,
        })),
      reconcile: async (links: never) => {
        await note(`compare ${names(links)}`);
        return { freed: ["lost"], quarantined: pods };
      },
    },
    former: { note: (record: string) => void done.push(`note ${record}`) },
    quarantine: {
      report: (lost: readonly string[]) => void done.push(`report ${lost}`),
    },
    network: {
      survey: () => {
        surveys++;
        return Promise.resolve({
          pods: pods.map(linkOf),
          husks: husks.map(linkOf),
          malformed: [],
          misplacedRoutes: [],
        });
      },
    },
    repair: {
      complete: (links: unknown) => Promise.resolve(links),
      repair: (links: never) => note(`repair ${names(links)}`),
    },
    teardown: {
      startListed: ({ containerId, generation }: {
        containerId: string;
        generation: number;
      }) => note(`finish ${containerId} ${generation}`),
    },
    metrics: { reconciled: (result: string) => void done.push(result) },
  } as unknown as ReconcilerOptions);
  return { reconciler, done, failing, locks };
}

Deno.test("Reconciler compares pods and husks, repairs pods, and finishes husks that no call works on", async () => {
  const { reconciler, done, failing, locks } = siteOf({
    pods: ["a", "b"],
    husks: ["h0", "h1", "h2"],
  });
  using _lock = await locks.lock("h0:eth0", { signal });
  failing.add("finish h1 1");
  await reconciler.reconcile(signal);
  assert.deepEqual(done, [
    "compare a,b,(h0),(h1),(h2)",
    "note lost",
    "report a,b",
    "repair a,b",
    "finish h2 2",
  ]);
});

Deno.test("Reconciler goes on after a failure, and counts both", async () => {
  const { reconciler, done, failing } = siteOf({ pods: ["a"], intervalMs: 4 });
  failing.add("repair a");
  const stop = new AbortController();
  const running = reconciler.run(stop.signal);
  await untilPasses(() => assert.ok(done.includes("error")));
  assert.ok(!done.includes("ok"));
  failing.clear();
  await untilPasses(() => assert.ok(done.includes("ok")));
  stop.abort();
  await assert.rejects(running, { name: "AbortError" });
});
