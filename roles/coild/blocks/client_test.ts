import assert from "node:assert/strict";
import type { AddressBlock, AddressPool } from "../../../lib/api/mod.ts";
import { untilPasses, untilStopped } from "../../../lib/async/testing.ts";
import { type BlockInfo, PoolNotFoundError } from "../../../lib/ipam/mod.ts";
import { KubeApiError, KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport, MemoryApi } from "../../../lib/kube/testing.ts";
import { BlockClient } from "./client.ts";

function block(name: string, labels: Record<string, string>): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name,
      uid: `uid-of-${name}`,
      labels: Object.fromEntries(
        Object.entries(labels).map(([k, v]) => [`coil.cybozu.com/${k}`, v]),
      ),
    },
    index: 0,
    ipv4: "10.0.0.0/27",
  };
}

/** A client whose requests are answered by the names, one after the other. */
function clientOf(answers: string[], objects: Record<string, object>) {
  const transport = new FakeTransport(({ path }) => {
    const found = objects[path.split("/").at(-1)?.split("?")[0] ?? ""];
    return found === undefined
      ? { status: 404, body: { kind: "Status", code: 404, reason: "NotFound" } }
      : { body: found };
  });
  return new BlockClient({
    client: new KubeClient(transport),
    lookMs: 60_000,
    nodeName: "node-a",
    requests: {
      synced: () => Promise.resolve(),
      ask: () => Promise.resolve(answers.shift() ?? "none left"),
    },
  });
}

const { signal } = new AbortController();

Deno.test("request() does not adopt a block that a late answer names and another node has by now", async () => {
  const client = clientOf(["p-0", "p-1"], {
    "p-0": block("p-0", { pool: "p", node: "node-b" }),
    "p-1": block("p-1", { pool: "p", node: "node-a" }),
  });
  const blocks = await client.request("p", { signal });
  assert.deepEqual(blocks.map(({ name }) => name), ["p-1"]);
});

Deno.test("request() passes over a block that is gone, or of another pool", async () => {
  const client = clientOf(["p-0", "p-1", "p-2"], {
    "p-1": block("p-1", { pool: "q", node: "node-a" }),
    "p-2": block("p-2", { pool: "p", node: "node-a" }),
  });
  const blocks = await client.request("p", { signal });
  assert.deepEqual(blocks.map(({ name }) => name), ["p-2"]);
});

/** An API server in memory, and the client of node "node-a", whose loops run until its disposal. */
class Site implements Disposable {
  readonly api = new MemoryApi();
  /** Names that answers to requests gave. */
  readonly answers: string[] = [];
  readonly client: BlockClient;
  readonly #stop = new AbortController();

  constructor({ lookMs = 3_600_000 } = {}) {
    this.client = new BlockClient({
      client: new KubeClient(this.api),
      lookMs,
      nodeName: "node-a",
      requests: {
        synced: () => Promise.resolve(),
        ask: () => Promise.resolve(this.answers.shift() ?? "none left"),
      },
    });
  }

  start(): this {
    for (const run of Object.values(this.client.loops)) {
      const { signal } = this.#stop;
      void untilStopped(run(signal), signal);
    }
    return this;
  }

  put(
    name: string,
    { node = "node-a", uid = `uid-of-${name}`, finalizers }: {
      readonly node?: string;
      readonly uid?: string;
      readonly finalizers?: readonly string[];
    } = {},
  ): void {
    const made = block(name, { pool: "p", node }) as AddressBlock;
    const metadata = { ...made.metadata, uid, ...finalizers && { finalizers } };
    this.api.remove(`addressblocks//${name}`);
    this.api.put("addressblocks", { ...made, metadata } as AddressBlock);
  }

  get(name: string): AddressBlock | undefined {
    return this.api.get(`addressblocks//${name}`);
  }

  async list(): Promise<BlockInfo[]> {
    return await this.client.list({ signal });
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }
}

const OWN = "coil.cybozu.com";

Deno.test("release() deletes first, and removes its own finalizer alone and last", async () => {
  using site = new Site();
  const { api, client } = site;
  site.put("p-0", { finalizers: [OWN, "other"] });
  site.put("p-1", { finalizers: [OWN] });
  site.put("p-2", { finalizers: ["other"] });
  site.put("p-3");
  const conflicts = [409, 409];
  api.refuse = (write) =>
    write.startsWith("PATCH ") ? conflicts.shift() : undefined;
  for (const found of await site.list()) {
    await client.release([found], { signal });
  }
  assert.deepEqual(api.writes, [
    "DELETE addressblocks//p-0",
    "PATCH addressblocks//p-0",
    "DELETE addressblocks//p-1",
    "PATCH addressblocks//p-1",
    "DELETE addressblocks//p-2",
    "DELETE addressblocks//p-3",
  ]);
  const { finalizers, deletionTimestamp } = site.get("p-0")?.metadata ?? {};
  assert.deepEqual(finalizers, ["other"]);
  assert.ok(deletionTimestamp);
  assert.equal(site.get("p-1"), undefined);
});

Deno.test("release() leaves another block of the name alone, and says what the API server refuses", async () => {
  using site = new Site();
  const { api, client } = site;
  site.put("p-0", { finalizers: [OWN] });
  const [found] = await site.list();
  assert.ok(found);
  for (const write of ["DELETE", "PATCH"]) {
    api.refuse = (made) => made.startsWith(`${write} `) ? 403 : undefined;
    await assert.rejects(client.release([found], { signal }), KubeApiError);
  }
  // Made again while it is released.
  api.refuse = (made) => {
    if (!made.startsWith("PATCH ")) return undefined;
    site.put("p-0", { uid: "another", finalizers: [OWN] });
    return 409;
  };
  await client.release([found], { signal });
  api.refuse = () => undefined;
  await client.release([found], { signal });
  const { uid, finalizers, deletionTimestamp } = site.get("p-0")?.metadata ??
    {};
  assert.deepEqual([uid, finalizers, deletionTimestamp], [
    "another",
    [OWN],
    undefined,
  ]);
  api.remove("addressblocks//p-0");
  await client.release([found], { signal });
});

Deno.test("what others do to a block that was listed, adopted or named by an answer is noticed, and not of one that was given back", async () => {
  using site = new Site({ lookMs: 10 });
  const { api, client } = site;
  let seen: string[] = [];
  let told = 0;
  using _listener = client.onBlocksChanged((blocks) => {
    seen = blocks.map(({ name, deleting }) => deleting ? `${name}!` : name);
    told++;
  });
  for (const name of ["p-0", "p-1"]) site.put(name, { finalizers: [OWN] });
  site.put("p-9", { node: "node-b" });
  const [first] = await site.list();
  assert.ok(first);
  site.put("p-2");
  site.answers.push("p-2");
  await client.request("p", { signal });
  site.start();
  api.put("addressblocks", {
    ...site.get("p-1"),
    metadata: { ...site.get("p-1")?.metadata, deletionTimestamp: "2026" },
  } as AddressBlock);
  await untilPasses(() => assert.deepEqual(seen, ["p-0", "p-1!", "p-2"]));
  api.remove("addressblocks//p-2");
  await untilPasses(() => assert.deepEqual(seen, ["p-0", "p-1!"]));
  await client.release([first], { signal });
  // Given to another node since, which concerns nobody here.
  site.put("p-0", { node: "node-b" });
  told = 0;
  for (const index of [1, 2, 3]) {
    api.put("addressblocks", { ...site.get("p-1"), index } as AddressBlock);
    await untilPasses(() => assert.equal(told, index));
  }
  api.remove("addressblocks//p-1");
  await untilPasses(() => assert.deepEqual(seen, []));
});

Deno.test("expect() has a block looked for that an answer named", async () => {
  using site = new Site({ lookMs: 10 });
  let seen: string[] = [];
  using _listener = site.client.onBlocksChanged((blocks) => {
    seen = blocks.map(({ name }) => name);
  });
  await site.list();
  site.start();
  site.put("p-7");
  site.client.expect("p-7");
  await untilPasses(() => assert.deepEqual(seen, ["p-7"]));
});

Deno.test("the state of a pool is what the cache shows, and one that it lacks is asked for", async () => {
  using site = new Site();
  const { api, client } = site;
  const put = (name: string, more: Partial<AddressPool> = {}) => {
    const spec = { blockSizeBits: 3, subnets: [], ...more.spec };
    const metadata = { name, ...more.metadata };
    api.put("addresspools", { ...more, metadata, spec } as AddressPool);
  };
  const spec = { blockSizeBits: 3, subnets: [] };
  put("ready");
  put("deleting", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } });
  put("paused", { spec: { ...spec, paused: true } });
  const low = { type: "CapacityLow", status: "True" };
  put("low", { status: { conditions: [low as never] } });
  const blocks = { total: 5_000, allocated: 2_000, free: 3_000 };
  put("ample", { status: { blocks } });
  assert.equal(client.poolState("ready"), "unknown");
  // Nothing is known yet: the controller decides.
  site.answers.push("p-0");
  site.put("p-0");
  await client.request("p", { signal });
  let changes = 0;
  using _listener = client.onPoolsChanged(() => changes++);
  site.start();
  await client.synced;
  const names = ["ample", "deleting", "low", "paused", "ready"];
  assert.deepEqual(client.poolNames(), names);
  for (const name of names) assert.equal(client.poolState(name), name);
  assert.equal(client.poolState("none"), "absent");
  assert.ok(changes > 0);
  put("ample", { status: { blocks: { ...blocks, total: 9_000 } } });
  put("later");
  await untilPasses(() => assert.equal(client.poolState("later"), "ready"));
  assert.equal(client.poolState("ample"), "ample", "a third is free");
  await assert.rejects(client.request("none", { signal }), PoolNotFoundError);
});

Deno.test("list() waits for the requests of before the start, and leaves out what it cannot read", async () => {
  const api = new MemoryApi();
  const known = Promise.withResolvers<void>();
  const client = new BlockClient({
    client: new KubeClient(api),
    lookMs: 3_600_000,
    nodeName: "node-a",
    requests: {
      synced: () => known.promise,
      ask: () => Promise.resolve("none"),
    },
  });
  api.put("addressblocks", block("p-0", { pool: "p", node: "node-a" }));
  const odd = block("p-1", { pool: "p", node: "node-a" }) as AddressBlock;
  api.put("addressblocks", { ...odd, ipv4: "odd" });
  const listing = client.list({ signal });
  api.put("addressblocks", block("p-2", { pool: "p", node: "node-a" }));
  known.resolve();
  assert.deepEqual((await listing).map(({ name }) => name), ["p-0", "p-2"]);
});

Deno.test("list() asks for the newest blocks of its node in one page", async () => {
  const transport = new FakeTransport(() => ({ body: { items: [] } }));
  const client = new BlockClient({
    client: new KubeClient(transport),
    lookMs: 3_600_000,
    nodeName: "node-a",
    requests: {
      synced: () => Promise.resolve(),
      ask: () => Promise.resolve("none"),
    },
  });
  assert.deepEqual(await client.list({ signal }), []);
  assert.deepEqual(transport.requests.map(({ path }) => path), [
    "/apis/coil.cybozu.com/v2/addressblocks?labelSelector=coil.cybozu.com%2Fnode%3Dnode-a",
  ]);
});

Deno.test("reserved() has what a pool says, and all addresses where that cannot be read", async () => {
  using site = new Site();
  const { api, client } = site;
  const pools = {
    a: ["10.0.0.1", "fd00::/127"],
    b: ["10.0.0.x"],
    c: undefined,
  };
  for (const [name, reserved] of Object.entries(pools)) {
    api.put("addresspools", {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name },
      spec: {
        subnets: [{ ipv4: "10.0.0.0/24" }],
        ...(reserved && { reserved }),
      },
    });
  }
  site.start();
  await client.synced;
  const textOf = (pool: string) => client.reserved(pool).join(" ");
  assert.equal(textOf("a"), "10.0.0.1 fd00::-fd00::1");
  assert.match(textOf("b"), /^0\.0\.0\.0-255.* ::-ffff:/);
  assert.equal(textOf("c"), "");
  assert.equal(textOf("none"), "");
});
