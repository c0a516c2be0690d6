import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses, untilQuiet } from "../../../lib/async/testing.ts";
import { readDefaults, writeDefaults } from "../../../lib/coordinator/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport, MemoryApi } from "../../../lib/kube/testing.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { DefaultsKeeper } from "./defaults_keeper.ts";

const SERVICES = ["10.96.0.0/12"];

function resource(spec: object, status: object = { phase: "Synced" }) {
  return {
    apiVersion: "spiderpool.spidernet.io/v2beta1",
    kind: "SpiderCoordinator",
    metadata: { name: "default", managedFields: [] },
    spec,
    status: { serviceCIDR: SERVICES, ...status },
  };
}

/** Runs a keeper of a file, which `before` may have written. */
async function withKeeper(
  before: (path: string) => Promise<unknown>,
  work: (
    parts: { api: MemoryApi; keeper: DefaultsKeeper; path: string },
  ) => Promise<void>,
  { lookMs = 10, isApiAway = false } = {},
): Promise<void> {
  const directory = await Deno.makeTempDir();
  const stop = new AbortController();
  try {
    const path = `${directory}/coordinator.json`;
    await before(path);
    const api = new MemoryApi();
    const client = new KubeClient(
      isApiAway ? new FakeTransport(() => ({ status: 503 })) : api,
    );
    const keeper = new DefaultsKeeper(client, {
      path,
      writeMs: 1,
      lookMs,
    });
    await using tasks = new TaskGroup({ signal: stop.signal });
    tasks.runAll(keeper.loops);
    await work({ api, keeper, path });
    stop.abort();
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const nothing = () => Promise.resolve();

Deno.test("DefaultsKeeper writes what is in force, and puts the file back when it was removed or changed", async () => {
  await withKeeper(nothing, async ({ api, keeper, path }) => {
    assert.equal(keeper.ageSeconds, undefined);
    api.put("spidercoordinators", resource({ hostRuleTable: 200 }));
    const isThere = () =>
      untilPasses(() =>
        assert.equal(readDefaults(path).config["hostRuleTable"], 200)
      );
    await isThere();
    assert.equal(keeper.shared.given.hostRuleTable, 200);
    assert.ok((keeper.ageSeconds ?? Infinity) < 60);
    await Deno.remove(path);
    await isThere();
    await Deno.writeTextFile(path, "{");
    await isThere();
    api.put("spidercoordinators", resource({ hostRuleTable: 201 }));
    await untilPasses(() =>
      assert.equal(readDefaults(path).config["hostRuleTable"], 201)
    );
  });
});

Deno.test("DefaultsKeeper writes what has changed without waiting for the next look", async () => {
  await withKeeper(nothing, async ({ api, path }) => {
    for (const table of [200, 201]) {
      api.put("spidercoordinators", resource({ hostRuleTable: table }));
      await untilPasses(() =>
        assert.equal(readDefaults(path).config["hostRuleTable"], table)
      );
    }
  }, { lookMs: 3_600_000 });
});

Deno.test("DefaultsKeeper records each time that it writes, and no look at a file that is as it should be", async () => {
  const lines = loggedLines();
  await withKeeper(nothing, async ({ api, path }) => {
    api.put("spidercoordinators", resource({}));
    await untilPasses(() => assert.ok(Deno.statSync(path).isFile));
    // Several looks at it.
    await untilQuiet(() => lines.length, 50);
  });
  assert.deepEqual(lines.map((line) => JSON.parse(line).msg), [
    "Wrote the defaults of coordinator",
  ]);
});

Deno.test("DefaultsKeeper leaves the file alone until it has seen a resource", async () => {
  const cut = (path: string) => Deno.writeTextFile(path, "{", { mode: 0o600 });
  await withKeeper(cut, async ({ api, keeper, path }) => {
    await untilPasses(() => assert.ok(keeper.isSettled));
    // Several looks at the file.
    await untilQuiet(() => Deno.statSync(path).size, 50);
    const { problem, given } = keeper.shared;
    assert.match(problem?.details ?? "", /JSON/);
    assert.equal(given.serviceCidrs, undefined);
    assert.equal(await Deno.readTextFile(path), "{");
    api.put("spidercoordinators", resource({}));
    await untilPasses(() => assert.equal(keeper.shared.problem, undefined));
  });
});

Deno.test("DefaultsKeeper puts the file of an earlier coild back while the API server is away", async () => {
  const earlier = { config: { serviceCIDR: SERVICES, txQueueLen: 7 } };
  await withKeeper(
    (path) => writeDefaults(path, earlier),
    async ({ keeper, path }) => {
      await Deno.remove(path);
      await untilPasses(() =>
        assert.equal(readDefaults(path).config["txQueueLen"], 7)
      );
      assert.equal(keeper.ageSeconds, undefined);
    },
    { isApiAway: true },
  );
});

Deno.test("DefaultsKeeper goes by the file of an earlier coild until the API server answers, and after the resource is gone", async () => {
  const earlier = { config: { serviceCIDR: SERVICES, txQueueLen: 7 } };
  await withKeeper(
    (path) => writeDefaults(path, earlier),
    async ({ api, keeper, path }) => {
      assert.ok(keeper.isSettled);
      assert.equal(keeper.shared.given.txQueueLength, 7);
      await untilPasses(() => assert.notEqual(keeper.ageSeconds, undefined));
      assert.equal(keeper.shared.given.txQueueLength, 7);
      const unready = { phase: "NotReady", serviceCIDR: [] };
      api.put("spidercoordinators", resource({ txQueueLen: 8 }, unready));
      await untilPasses(() =>
        assert.equal(keeper.shared.given.txQueueLength, 8)
      );
      assert.deepEqual(
        keeper.shared.given.serviceCidrs?.map(String),
        SERVICES,
      );
      api.remove("spidercoordinators//default");
      const before = keeper.shared;
      api.put("spidercoordinators", resource({ txQueueLen: -1 }));
      await untilPasses(() => assert.notEqual(keeper.shared, before));
      // The file follows what is in force.
      await untilPasses(() =>
        assert.equal(readDefaults(path).config["txQueueLen"], 8)
      );
      assert.equal(keeper.shared.given.txQueueLength, 8);
    },
  );
});
