import assert from "node:assert/strict";
import type { AddressBlock } from "../../../lib/api/mod.ts";
import { sleep } from "../../../lib/async/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { BlockLooks } from "./looks.ts";

function block(
  name: string,
  version: number,
  { node = "node1", uid = `uid-${name}`, reserved = false } = {},
): AddressBlock {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name,
      uid,
      resourceVersion: String(version),
      labels: {
        "coil.cybozu.com/node": node,
        ...(reserved && { "coil.cybozu.com/reserved": "true" }),
      },
    },
    index: 0,
  };
}

/** Looks every 20 ms at what a server has. */
async function looking(
  work: (f: {
    readonly looks: BlockLooks;
    readonly server: Map<string, AddressBlock>;
    readonly gets: () => string[];
    /** What was reported, each as `name@version …`. */
    readonly told: string[];
    readonly fail: (isAway: boolean) => void;
    /** Whether the server's cache has nothing yet. */
    readonly lag: (isBehind: boolean) => void;
  }) => Promise<void>,
  { intervalMs = 20 } = {},
): Promise<void> {
  const server = new Map<string, AddressBlock>();
  let isAway = false;
  let isBehind = false;
  const transport = new FakeTransport(({ path }) => {
    if (isAway) return { status: 403, body: { kind: "Status" } };
    const { pathname, searchParams } = new URL(path, "http://x");
    const isCached = searchParams.get("resourceVersion") === "0";
    const name = pathname.split("/").at(-1) ?? "";
    const body = isBehind && isCached ? undefined : server.get(name);
    return body === undefined
      ? { status: 404, body: { kind: "Status", reason: "NotFound" } }
      : { body };
  });
  const looks = new BlockLooks({
    client: new KubeClient(transport),
    nodeName: "node1",
    intervalMs,
  });
  const told: string[] = [];
  using _subscription = looks.subscribe((blocks) =>
    told.push(
      blocks.map(({ metadata: { name, resourceVersion } }) =>
        `${name}@${resourceVersion}`
      ).sort().join(" "),
    )
  );
  const stop = new AbortController();
  const running = looks.run(stop.signal);
  await work({
    looks,
    server,
    told,
    gets: () => transport.requests.map(({ path }) => path),
    fail: (away) => isAway = away,
    lag: (behind) => isBehind = behind,
  });
  stop.abort();
  await running;
}

async function until(probe: () => boolean): Promise<void> {
  for (let n = 0; n < 400 && !probe(); n++) await sleep(5);
  assert.ok(probe(), "it did not come true");
}

Deno.test("BlockLooks looks at each block again and again, and reports only what changed", async () => {
  await looking(async ({ looks, server, told, gets }) => {
    for (const name of ["a", "b"]) {
      server.set(name, block(name, 1));
      looks.adopted(block(name, 1));
    }
    await until(() => gets().length > 8);
    assert.deepEqual(told, []);
    for (const path of gets()) assert.match(path, /\?resourceVersion=0$/);
    server.set("a", block("a", 2));
    await until(() => told.length > 0);
    assert.deepEqual(told, ["a@2 b@1"]);
    server.delete("b");
    await until(() => told.length > 1);
    assert.deepEqual(told, ["a@2 b@1", "a@2"]);
    server.set("a", block("a", 3, { node: "node2" }));
    await until(() => told.length > 2);
    assert.equal(told.at(-1), "", "another node has it");
  });
});

Deno.test("BlockLooks looks at a block of v1 every few seconds, however seldom at others, adopted or listed", async () => {
  const blocks = [block("a", 1, { reserved: true }), block("b", 1)];
  const lookAt = (take: (looks: BlockLooks) => void) =>
    looking(async ({ looks, server, told, gets }) => {
      for (const name of ["a", "b"]) server.set(name, block(name, 1));
      // It has begun to wait.
      await sleep(20);
      take(looks);
      server.delete("a");
      for (let n = 0; n < 400 && told.length === 0; n++) await sleep(20);
      assert.deepEqual(told, ["b@1"]);
      assert.equal(gets().length, 1);
    }, { intervalMs: 600_000 });
  await Promise.all([
    lookAt((looks) => {
      for (const each of blocks) looks.adopted(each);
    }),
    lookAt((looks) => looks.beginList()(blocks)),
  ]);
});

Deno.test("BlockLooks takes an object of another UID for a change", async () => {
  await looking(async ({ looks, server, told }) => {
    looks.adopted(block("a", 1));
    server.set("a", block("a", 1, { uid: "another" }));
    await until(() => told.length > 0);
    assert.deepEqual(told, ["a@1"]);
  });
});

Deno.test("BlockLooks reports a block that an answer named and nobody took", async () => {
  await looking(async ({ looks, server, told }) => {
    server.set("a", block("a", 1));
    // Before its look a live read has it.
    looks.expect("b");
    looks.adopted(block("b", 1));
    looks.released("b");
    await sleep(50);
    assert.deepEqual(told, []);
    looks.expect("a");
    for (let n = 0; n < 400 && told.length === 0; n++) await sleep(20);
    assert.deepEqual(told, ["a@1"]);
  }, { intervalMs: 600_000 });
});

Deno.test("BlockLooks finds a block that an answer named although the API server's cache does not have it yet", async () => {
  await looking(async ({ looks, server, told, gets, lag }) => {
    lag(true);
    server.set("a", block("a", 1));
    looks.expect("a");
    for (let n = 0; n < 400 && told.length === 0; n++) await sleep(20);
    assert.deepEqual(told, ["a@1"]);
    assert.deepEqual(
      gets().map((path) => path.split("/").at(-1)),
      ["a"],
    );
  }, { intervalMs: 600_000 });
});

Deno.test("BlockLooks looks once at a block that an answer named and that is gone", async () => {
  await looking(async ({ looks, told, gets }) => {
    looks.expect("a");
    for (let n = 0; n < 400 && gets().length === 0; n++) await sleep(20);
    // Others are looked at several times in it.
    await sleep(200);
    assert.equal(gets().length, 1);
    assert.deepEqual(told, []);
  });
});

Deno.test("BlockLooks forgets what a list does not have, but for what came after its begin", async () => {
  await looking(async ({ looks, server, gets }) => {
    for (const name of ["a", "b", "c"]) server.set(name, block(name, 1));
    looks.adopted(block("a", 1));
    const listed = looks.beginList();
    looks.adopted(block("b", 1));
    listed([block("c", 1)]);
    await until(() => gets().length > 4);
    const names = new Set(
      gets().map((path) => /addressblocks\/(\w)/.exec(path)?.[1]),
    );
    assert.deepEqual([...names].sort(), ["b", "c"]);
  });
});

Deno.test("BlockLooks goes on after failures, and reports none of them", async () => {
  await looking(async ({ looks, server, told, gets, fail }) => {
    looks.adopted(block("a", 1));
    fail(true);
    await until(() => gets().length > 3);
    assert.deepEqual(told, []);
    server.set("a", block("a", 2));
    fail(false);
    await until(() => told.length > 0);
    assert.deepEqual(told, ["a@2"]);
  });
});
