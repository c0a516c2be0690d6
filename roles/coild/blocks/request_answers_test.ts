import assert from "node:assert/strict";
import {
  type BlockRequest,
  blockRequestNames,
  completedStatus,
  failedStatus,
} from "../../../lib/api/mod.ts";
import { sleep, TaskGroup } from "../../../lib/async/mod.ts";
import {
  OutOfBlocksError,
  PoolNotFoundError,
  PoolPausedError,
} from "../../../lib/ipam/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { NodeSource } from "../cluster/node_source.ts";
import { BlockRequests } from "./requests.ts";

const [NAME = ""] = blockRequestNames("default", "n1");
const KEY = `blockrequests//${NAME}`;
const { signal } = new AbortController();

/** Requests of node "n1", whose loops run. */
class Site implements AsyncDisposable {
  readonly api = new MemoryApi();
  readonly late: string[] = [];
  readonly requests: BlockRequests;
  readonly #node: NodeSource;
  readonly #group = new TaskGroup();

  constructor() {
    this.api.put("nodes", { metadata: { name: "n1", uid: "node-uid" } });
    const client = new KubeClient(this.api);
    this.#node = new NodeSource(client, "n1");
    this.requests = new BlockRequests({
      client,
      node: this.#node,
      onLateAnswer: (block) => void this.late.push(block),
    });
  }

  async start(): Promise<this> {
    this.#group.run("node", (s) => this.#node.run(s));
    this.#group.runAll(this.requests.loops);
    await this.requests.synced({ signal });
    return this;
  }

  /** Stores a request as it may be left from before. */
  put(changes: {
    readonly name?: string;
    readonly pool?: string;
    readonly nodeUid?: string;
    readonly isGoing?: true;
    readonly status?: BlockRequest["status"];
  } = {}): void {
    const { name = NAME, pool = "default", nodeUid = "node-uid" } = changes;
    const { isGoing, status } = changes;
    const node = { apiVersion: "v1", kind: "Node", name: "n1" };
    this.api.put("blockrequests", {
      apiVersion: "coil.cybozu.com/v2",
      kind: "BlockRequest",
      metadata: {
        name,
        uid: "left",
        labels: { "coil.cybozu.com/node": "n1" },
        ownerReferences: [{ ...node, uid: nodeUid }],
        ...(isGoing && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      },
      spec: { nodeName: "n1", poolName: pool },
      ...(status && { status }),
    });
  }

  /** Answers the request of the name, once it is there and, if asked for, not the one that was left. */
  async answer(
    status: BlockRequest["status"] = completedStatus("default-7", new Date(0)),
    { isNew = true } = {},
  ): Promise<void> {
    await this.until(() => {
      const found = this.api.get<BlockRequest>(KEY);
      assert.ok(found && (!isNew || found.metadata.uid !== "left"));
    });
    const found = this.api.get<BlockRequest>(KEY);
    this.api.put("blockrequests", { ...found, status });
  }

  async until(check: () => void): Promise<void> {
    for (let left = 800;; left--) {
      try {
        return check();
      } catch (error) {
        if (left === 0) throw error;
      }
      await sleep(5);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#group[Symbol.asyncDispose]();
  }
}

Deno.test("ask() makes a request that its node owns, and deletes it when it has the answer", async () => {
  await using site = await new Site().start();
  const asking = site.requests.ask("default", { signal });
  await site.until(() => assert.ok(site.api.get(KEY)));
  const { metadata, spec } = site.api.get<BlockRequest>(KEY) ?? {};
  assert.deepEqual(spec, { nodeName: "n1", poolName: "default" });
  assert.equal(metadata?.ownerReferences?.[0]?.uid, "node-uid");
  assert.deepEqual(metadata?.labels, {
    "coil.cybozu.com/node": "n1",
    "coil.cybozu.com/pool": "default",
  });
  await site.answer();
  assert.equal(await asking, "default-7");
  await site.until(() => assert.deepEqual(site.api.keys, ["nodes//n1"]));
  assert.deepEqual(site.late, []);
});

Deno.test("ask() says why there is no block", async () => {
  const cases = [
    ["out of blocks", OutOfBlocksError, /out of blocks$/],
    ["pool not found", PoolNotFoundError, /"default"/],
    ["pool paused", PoolPausedError, /paused/],
    ["something else", OutOfBlocksError, /something else: because$/],
  ] as const;
  for (const [reason, type, said] of cases) {
    await using site = await new Site().start();
    const asking = site.requests.ask("default", { signal });
    asking.catch(() => {});
    await site.answer(failedStatus({ reason, message: "because" }, new Date()));
    await assert.rejects(asking, (error) => {
      assert.ok(error instanceof type);
      assert.match(error.message, said);
      return true;
    });
    await site.until(() => assert.equal(site.api.get(KEY), undefined));
  }
});

Deno.test("ask() waits for a request that is under way already", async () => {
  for (const isOld of [true, false]) {
    await using site = new Site();
    if (isOld) site.put();
    await site.start();
    if (!isOld) site.put();
    const asking = site.requests.ask("default", { signal });
    await sleep(20);
    await site.answer(undefined, { isNew: false });
    assert.equal(await asking, "default-7");
  }
});

const SPENT: Readonly<Record<string, Parameters<Site["put"]>[0]>> = {
  "was refused": {
    status: failedStatus({ reason: "r", message: "m" }, new Date(0)),
  },
  "is an earlier Node's": { nodeUid: "earlier" },
  "is being deleted": { isGoing: true },
};

for (const [what, left] of Object.entries(SPENT)) {
  Deno.test(`ask() makes another request in place of one that ${what}`, async () => {
    await using site = await new Site().start();
    site.put(left);
    const asking = site.requests.ask("default", { signal });
    await site.answer();
    assert.equal(await asking, "default-7");
    assert.ok(site.api.writes.includes(`DELETE ${KEY}`));
  });
}

Deno.test("ask() takes its next name when one is another pool's, and says so when all are", async () => {
  const names = blockRequestNames("default", "n1");
  const [first = "", second = ""] = names;
  await using site = await new Site().start();
  site.put({ name: first, pool: "other" });
  const asking = site.requests.ask("default", { signal });
  const key = `blockrequests//${second}`;
  await site.until(() => assert.ok(site.api.get(key)));
  const status = completedStatus("default-7", new Date(0));
  site.api.put("blockrequests", {
    ...site.api.get<BlockRequest>(key),
    status,
  });
  assert.equal(await asking, "default-7");
  await site.until(() => assert.equal(site.api.get(key), undefined));
  for (const name of names) site.put({ name, pool: "other" });
  const taken = names.map((name) => `"${name}"`).join(", ");
  await assert.rejects(
    site.requests.ask("default", { signal: AbortSignal.timeout(60_000) }),
    new RegExp(`${taken} are not of this pool and node`),
  );
});

Deno.test("a request whose answer was used is deleted when the API server allows it", async () => {
  await using site = await new Site().start();
  let refusals = 2;
  site.api.refuse = (write) =>
    write.startsWith("DELETE ") && refusals-- > 0 ? 403 : undefined;
  const asking = site.requests.ask("default", { signal });
  await site.answer();
  assert.equal(await asking, "default-7");
  await site.until(() => assert.equal(site.api.get(KEY), undefined));
  assert.equal(refusals, -1);
});

Deno.test("an answer from before the start is not used again", async () => {
  await using site = new Site();
  site.put({ status: completedStatus("default-1", new Date(0)) });
  await site.start();
  const asking = site.requests.ask("default", { signal });
  await site.answer();
  assert.equal(await asking, "default-7");
});

Deno.test("ask() asks again when its request is deleted", async () => {
  await using site = await new Site().start();
  const asking = site.requests.ask("default", { signal });
  await site.until(() => assert.ok(site.api.get(KEY)));
  site.api.remove(KEY);
  await site.answer();
  assert.equal(await asking, "default-7");
});

Deno.test("an answer that comes when nobody waits is reported", async () => {
  await using site = await new Site().start();
  const stop = new AbortController();
  const asking = site.requests.ask("default", { signal: stop.signal });
  await site.until(() => assert.ok(site.api.get(KEY)));
  stop.abort();
  await assert.rejects(asking);
  await site.answer();
  const again = new AbortController();
  again.abort();
  await assert.rejects(
    site.requests.ask("default", { signal: again.signal }),
  );
  await site.until(() => assert.deepEqual(site.late, ["default-7"]));
});
