import assert from "node:assert/strict";
import { Gate, KeyedMutex } from "../../../lib/async/mod.ts";
import { settle, untilPasses } from "../../../lib/async/testing.ts";
import { Readiness } from "../observe/readiness.ts";
import { start, START_CONDITIONS, type StartupOptions } from "./startup.ts";

/** What of the API server's a start waits for. */
const AWAITED = ["node", "pods", "blocks"] as const;

/** A node with pods "a" and "b", whose kernel refuses twice, and an API server that does not answer `late` before the test has it do so. */
function siteOf(
  { rests = [], late = "node" }: {
    readonly rests?: readonly string[];
    readonly late?: typeof AWAITED[number];
  } = {},
) {
  const done: string[] = [];
  const api = Promise.withResolvers<void>();
  const addresses = Promise.withResolvers<void>();
  const readiness = new Readiness(START_CONDITIONS);
  const prepared = new Gate();
  const links = ["a", "b"].map((containerId) => ({
    containerId,
    ifname: "eth0",
  }));
  let refusals = 2;
  const note = (what: string) => Promise.resolve(void done.push(what));
  let restFailures = 1;
  const listRests = () => {
    if (restFailures-- > 0) throw new Error("busy");
    return rests;
  };
  const names = (pods: readonly { containerId: string }[]) =>
    pods.map(({ containerId }) => containerId).join();
  const synced = (what: typeof AWAITED[number]) =>
    what === late ? api.promise : Promise.resolve();
  const stop = new AbortController();
  const locks = new KeyedMutex();
  const running = start({
    readiness,
    prepared,
    locks,
    ipam: {
      start: async (found: never, { resting }: { resting: unknown[] }) => {
        await note(`recover ${names(found)}${resting.join("")}`);
        await addresses.promise;
      },
      beginRelease: ({ containerId }: { containerId: string }) => {
        done.push(`release ${containerId}`);
        return { containerId };
      },
      finishRelease: ({ containerId }: { containerId: string }) =>
        note(`released ${containerId}`),
    },
    network: {
      init: () =>
        refusals-- > 0 ? Promise.reject(new Error("busy")) : note("rules"),
      finishHusks: () => note("husks").then(() => 1),
      list: () => Promise.resolve([...links]),
    },
    sources: { ensureTable: () => note("table") },
    node: { name: "n1", synced: synced("node") },
    pods: { synced: () => synced("pods") },
    blocks: {
      synced: synced("blocks"),
      ...(rests.length > 0 &&
        { rests: { list: () => Promise.try(listRests) } }),
    },
    addresses: { publish: () => done.push("publish") },
    repair: {
      complete: (pods: unknown) => Promise.resolve(pods),
      repair: (pods: never) => {
        assert.equal(readiness.isReady, false);
        return note(`repair ${names(pods)}`);
      },
    },
  } as unknown as StartupOptions, stop);
  const answers = { api, addresses };
  return { ...answers, done, links, locks, prepared, readiness, running, stop };
}

Deno.test("a start sets up the kernel without the API server, insists, and is ready when it knows all addresses", async () => {
  const site = siteOf();
  const { done, readiness } = site;
  const { api, addresses, kernel } = START_CONDITIONS;
  assert.equal(readiness.reason, [kernel, api, addresses].join("; "));
  await site.prepared.wait(site.stop);
  await settle();
  const kernelParts = ["rules", "table", "husks"];
  assert.deepEqual(done.splice(0), [...kernelParts, "recover a,b"]);
  assert.equal(readiness.reason, [api, addresses].join("; "));
  site.api.resolve();
  await untilPasses(() => assert.equal(readiness.reason, addresses));
  assert.deepEqual(done, []);
  // A DEL comes before the addresses are known.
  site.links.shift();
  {
    using _lock = await site.locks.lock("a:eth0", site.stop);
    site.addresses.resolve();
    await settle();
    assert.deepEqual(done, []);
  }
  await site.running;
  assert.deepEqual(done, ["release a", "released a", "publish", "repair b"]);
  assert.equal(readiness.isReady, true);
});

for (const late of AWAITED) {
  Deno.test(`a start waits for the API server's answer about ${late}`, async () => {
    const { addresses, api, readiness, running } = siteOf({ late });
    addresses.resolve();
    const { api: reason } = START_CONDITIONS;
    await untilPasses(() => assert.ok(readiness.reason?.startsWith(reason)));
    await settle();
    assert.ok(readiness.reason?.startsWith(reason));
    api.resolve();
    await running;
    assert.equal(readiness.isReady, true);
  });
}

Deno.test("a start that waits for the API server ends by its signal", async () => {
  const { running, stop, prepared, addresses, readiness } = siteOf();
  addresses.resolve();
  await prepared.wait(stop);
  stop.abort();
  await assert.rejects(running, { name: "AbortError" });
  assert.equal(readiness.isReady, false);
});

Deno.test("a start recovers which addresses rest, and insists on it", async () => {
  const { addresses, api, done, running } = siteOf({ rests: [" rest"] });
  addresses.resolve();
  api.resolve();
  await running;
  assert.ok(done.includes("recover a,b rest"));
});
