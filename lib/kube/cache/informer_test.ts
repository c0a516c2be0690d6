import assert from "node:assert/strict";
import { Backoff, sleep } from "../../async/mod.ts";
import { RecordingClock } from "../../async/testing.ts";
import { KubeClient } from "../client/client.ts";
import { Informer } from "./informer.ts";
import type { InformerOptions } from "./informer_options.ts";
import { NODES, PODS } from "../api/resource.ts";
import { FakeTransport } from "../testing.ts";
import type { V1Node, V1Pod } from "../api/objects.ts";

function node(
  name: string,
  version: number,
  labels?: Record<string, string>,
): V1Node {
  const metadata = {
    name,
    uid: `uid-${name}`,
    resourceVersion: String(version),
  };
  return {
    metadata: labels === undefined ? metadata : { ...metadata, labels },
  };
}

/** The server's side: lists are answered from `items`, each watch is a script of its own. */
class Server {
  items: V1Node[] = [];
  version = 1;
  listFailure: { status: number; body: unknown } | undefined;
  /** Statuses of the answers to the next watches. */
  watchFailures: number[] = [];
  readonly lists: string[] = [];
  readonly watches: string[] = [];
  readonly transport: FakeTransport;
  #current: { push: (line: unknown) => void; end: () => void } | undefined;

  constructor({ streamsLists = false } = {}) {
    this.transport = new FakeTransport((request) => {
      const url = new URL(request.path, "http://x");
      if (url.searchParams.get("watch") !== "true") {
        this.lists.push(url.search);
        if (this.listFailure !== undefined) return this.listFailure;
        const metadata = { resourceVersion: String(this.version) };
        return { body: { metadata, items: this.items } };
      }
      const isFromAll = url.searchParams.has("sendInitialEvents");
      this.watches.push(
        `${isFromAll ? "all " : ""}${
          url.searchParams.get("resourceVersion") ?? ""
        }`,
      );
      const status = this.watchFailures.shift();
      if (status !== undefined) return { status, body: "no" };
      return { lines: this.#lines(request.signal) };
    }, { streamsLists });
  }

  /** The bookmark behind the objects that a watch begins with. */
  endInitialEvents(version: number): void {
    const annotations = { "k8s.io/initial-events-end": "true" };
    this.push("BOOKMARK", {
      metadata: { resourceVersion: `${version}`, annotations },
    });
  }

  push(type: string, object: unknown): void {
    this.#current?.push({ type, object });
  }

  raw(text: string): void {
    this.#current?.push(text);
  }

  end(): void {
    this.#current?.end();
  }

  #lines(signal: AbortSignal | undefined): AsyncIterable<unknown> {
    const queue: unknown[] = [];
    let wake = () => {};
    let isOpen = true;
    this.#current = {
      push: (line) => {
        queue.push(line);
        wake();
      },
      end: () => {
        isOpen = false;
        wake();
      },
    };
    signal?.addEventListener("abort", () => wake());
    return (async function* () {
      while (signal?.aborted !== true) {
        if (queue.length > 0) yield queue.shift();
        else if (!isOpen) return;
        else await new Promise<void>((resolve) => wake = resolve);
      }
    })();
  }
}

async function follow(
  options: InformerOptions<V1Node>,
  test: (context: {
    server: Server;
    informer: Informer<V1Node>;
    changes: string[];
  }) => Promise<void>,
  prepare: (server: Server) => void = () => {},
  server = new Server(),
): Promise<void> {
  prepare(server);
  const informer = new Informer(new KubeClient(server.transport), NODES, {
    backoff: new Backoff({ initialMs: 1, maxMs: 2 }),
    ...options,
  });
  const changes: string[] = [];
  informer.subscribe(({ type, key }) => changes.push(`${type} ${key}`));
  const controller = new AbortController();
  const running = informer.run(controller.signal);
  try {
    await test({ server, informer, changes });
  } finally {
    controller.abort();
    await running;
  }
}

async function until(probe: () => boolean): Promise<void> {
  for (let n = 0; n < 500 && !probe(); n++) await sleep(1);
  assert.ok(probe(), "it did not come true");
}

Deno.test("Informer lists, then follows the watch", async () => {
  await follow({}, async ({ server, informer, changes }) => {
    await informer.synced;
    await until(() => server.watches.length === 1);
    assert.deepEqual(server.lists, ["?resourceVersion=0"]);
    assert.deepEqual(server.watches, ["3"]);
    server.push("ADDED", node("b", 4));
    server.push("MODIFIED", node("a", 5));
    server.push("DELETED", node("b", 6));
    await until(() => changes.length === 4);
    assert.deepEqual(changes, ["added a", "added b", "updated a", "deleted b"]);
    assert.deepEqual(informer.store.keys(), ["a"]);
    assert.ok(informer.lastSyncAgeMs < 5000);
  }, (server) => {
    server.items = [node("a", 2)];
    server.version = 3;
  });
});

Deno.test("Informer tells of the first list when the store has all of it", async () => {
  const sizes: (number | boolean)[] = [];
  const server = new Server();
  server.items = [node("a", 1), node("b", 2)];
  const informer = new Informer(new KubeClient(server.transport), NODES, {
    onChange: () => sizes.push(informer.store.size, informer.hasSynced),
  });
  const controller = new AbortController();
  const running = informer.run(controller.signal);
  await informer.synced;
  controller.abort();
  await running;
  assert.deepEqual(sizes, [2, true, 2, true]);
});

Deno.test("Informer reports no change when the transform returns the object that is in the store", async () => {
  const first = { metadata: { name: "a" } };
  await follow({ transform: () => first }, async (one) => {
    const { server, informer, changes } = one;
    await informer.synced;
    await until(() => server.watches.length === 1);
    server.push("MODIFIED", node("a", 4));
    server.push("DELETED", node("a", 5));
    await until(() => changes.length === 2);
    assert.deepEqual(changes, ["added a", "deleted a"]);
  }, (server) => {
    server.items = [node("a", 2)];
  });
});

/** A server with WatchList. */
async function followStream(
  test: Parameters<typeof follow>[1],
  options: InformerOptions<V1Node> = {},
  prepare?: (server: Server) => void,
): Promise<void> {
  await follow(options, test, prepare, new Server({ streamsLists: true }));
}

Deno.test("Informer reads all objects by the watch that it follows", async () => {
  await followStream(async ({ server, informer, changes }) => {
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 2));
    server.push("ADDED", node("b", 1));
    // A bookmark of another kind ends nothing.
    server.push("BOOKMARK", { metadata: { resourceVersion: "3" } });
    await until(() => informer.store.size === 2);
    assert.equal(informer.hasSynced, false);
    assert.equal(informer.version, undefined);
    assert.deepEqual(changes, []);
    server.endInitialEvents(7);
    await informer.synced;
    assert.deepEqual(changes, ["added a", "added b"]);
    assert.equal(informer.version, "7");
    server.push("MODIFIED", node("b", 8));
    await until(() => changes.length === 3);
    assert.equal(informer.version, "8");
    server.end();
    await until(() => server.watches.length === 2);
    assert.deepEqual(server.watches, ["all 0", "8"]);
    assert.deepEqual(server.lists, []);
    assert.deepEqual(changes, ["added a", "added b", "updated b"]);
  });
});

Deno.test("Informer reports each object that it reads first once, and one that is gone again as added and deleted", async () => {
  await followStream(async ({ server, informer, changes }) => {
    await until(() => server.watches.length === 1);
    const versions: (string | undefined)[] = [];
    using _subscription = informer.subscribe(({ object }) =>
      versions.push(object.metadata?.resourceVersion)
    );
    server.push("ADDED", node("a", 1));
    server.push("ADDED", node("b", 2));
    server.push("ADDED", node("c", 3));
    server.push("MODIFIED", node("a", 4));
    server.push("DELETED", node("b", 5));
    server.push("DELETED", node("none", 6));
    server.endInitialEvents(7);
    await informer.synced;
    assert.deepEqual(changes, ["added a", "added c", "added b", "deleted b"]);
    assert.deepEqual(versions, ["4", "3", "2", "2"]);
    assert.deepEqual(informer.store.keys(), ["a", "c"]);
  });
});

Deno.test("Informer that is cut off while it reads all objects reads them again, and drops none before the end", async () => {
  await followStream(async ({ server, informer, changes }) => {
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 1));
    server.push("ADDED", node("b", 2));
    await until(() => informer.store.size === 2);
    server.end();
    await until(() => server.watches.length === 2);
    assert.deepEqual(changes, ["added a", "added b"]);
    assert.equal(informer.hasSynced, false);
    server.push("ADDED", node("b", 2));
    server.push("ADDED", node("c", 3));
    await until(() => informer.store.size === 3);
    server.endInitialEvents(3);
    await until(() => changes.includes("deleted a"));
    assert.deepEqual(changes.slice(2), ["added c", "deleted a"]);
    assert.deepEqual(server.watches, ["all 0", "all 0"]);
  });
});

Deno.test("Informer reads all objects again after 410, nothing older than what it saw", async () => {
  await followStream(async ({ server, informer, changes }) => {
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 1));
    server.push("ADDED", node("b", 2));
    server.endInitialEvents(4);
    await informer.synced;
    server.push("ERROR", { kind: "Status", code: 410, reason: "Expired" });
    await until(() => server.watches.length === 2);
    // What goes away while all is read: seen to go, or no longer to be kept.
    server.push("ADDED", node("a", 1));
    server.push("ADDED", node("b", 2));
    server.push("ADDED", node("c", 5));
    server.push("MODIFIED", node("a", 6, { out: "" }));
    server.push("DELETED", node("b", 7));
    server.endInitialEvents(9);
    await until(() => changes.includes("deleted b"));
    assert.deepEqual(informer.store.keys(), ["c"]);
    assert.deepEqual(server.watches, ["all 0", "all 4"]);
    assert.equal(server.lists.length, 0);
  }, { keep: ({ metadata }) => metadata?.labels?.["out"] === undefined });
});

Deno.test("Informer asks a server that was restored from a backup for the newest objects", async () => {
  await followStream(async ({ server, informer }) => {
    await until(() => server.watches.length === 1);
    server.endInitialEvents(4);
    await informer.synced;
    server.watchFailures = [504];
    server.push("ERROR", { kind: "Status", code: 410, reason: "Expired" });
    await until(() => server.watches.length === 3);
    assert.deepEqual(server.watches, ["all 0", "all 4", "all "]);
  });
});

Deno.test("Informer lists where the server does not send all objects by a watch, and does not ask again", async () => {
  await followStream(
    async ({ server, informer }) => {
      await informer.synced;
      await until(() => server.watches.length === 2);
      server.push("ERROR", { kind: "Status", code: 410, reason: "Expired" });
      await until(() => server.watches.length === 3);
      assert.deepEqual(server.watches, ["all 0", "1", "1"]);
      assert.deepEqual(server.lists, [
        "?resourceVersion=0",
        "?resourceVersion=1",
      ]);
    },
    {},
    (server) => server.watchFailures = [422],
  );
});

Deno.test("Informer watches on from the last bookmark when a watch ends", async () => {
  await follow({}, async ({ server }) => {
    await until(() => server.watches.length === 1);
    server.push("BOOKMARK", { metadata: { resourceVersion: "90" } });
    server.end();
    await until(() => server.watches.length === 2);
    assert.deepEqual(server.watches, ["1", "90"]);
    assert.equal(server.lists.length, 1);
  });
});

Deno.test("Informer watches on within a second when a server ends a watch before its time, thousands of them one by one, and at once by its time", async () => {
  const { now } = performance;
  let lateMs = 0;
  performance.now = () => now.call(performance) + lateMs;
  const clock = new RecordingClock();
  const { delays } = clock;
  try {
    await follow({ clock }, async ({ server }) => {
      for (let ended = 1; ended <= 110; ended++) {
        await until(() => server.watches.length === ended);
        const { path = "" } = server.transport.requests.at(-1) ?? {};
        const asked = new URL(path, "http://x").searchParams;
        const seconds = Number(asked.get("timeoutSeconds"));
        lateMs += 1_000 * (ended <= 100 ? seconds - 60 : seconds);
        server.end();
      }
      await until(() => server.watches.length === 111);
    });
  } finally {
    performance.now = now;
  }
  assert.equal(delays.length, 100);
  assert.ok(delays.every((ms) => ms >= 0 && ms <= 1_000), `${delays}`);
  assert.ok(delays.some((ms) => ms < 200) && delays.some((ms) => ms > 800));
});

Deno.test("Informer lists again after 410 and reports what went away unseen", async () => {
  await follow({}, async ({ server, informer, changes }) => {
    await until(() => server.watches.length === 1);
    changes.length = 0;
    server.items = [node("b", 7), node("c", 8)];
    server.version = 9;
    const status = { kind: "Status", code: 410, reason: "Expired" };
    server.push("ERROR", status);
    await until(() => server.watches.length === 2);
    assert.deepEqual(changes.sort(), ["added c", "deleted a", "updated b"]);
    // From the cache, and nothing older than what was seen.
    assert.deepEqual(server.lists[1], "?resourceVersion=1");
    assert.deepEqual(server.watches, ["1", "9"]);
    assert.equal(informer.store.get("a"), undefined);
  }, (server) => server.items = [node("a", 1), node("b", 1)]);
});

/** Notes the delays, which double from 1 ms on. */
function recordedBackoff(delays: number[]): Backoff {
  class Recorded extends Backoff {
    override nextMs(): number {
      const ms = super.nextMs();
      delays.push(ms);
      return ms;
    }
  }
  return new Recorded({ initialMs: 1, maxMs: 100, jitter: 0 });
}

Deno.test("Informer lists soon when its version is too old after an outage, and not in a storm", async () => {
  const delays: number[] = [];
  const backoff = recordedBackoff(delays);
  await follow({ backoff }, async ({ server }) => {
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 4));
    await until(() => server.lists.length === 1);
    server.watchFailures = [503, 503, 503, 503, 410, 410, 410];
    server.raw("{");
    server.end();
    await until(() => server.watches.length === 9);
    assert.deepEqual(delays, [1, 2, 4, 8, 16, 1, 2, 4]);
    assert.equal(server.lists.length, 4);
  });
});

Deno.test("Informer whose versions are all too old reads all again with growing pauses", async () => {
  const delays: number[] = [];
  const backoff = recordedBackoff(delays);
  await followStream(async ({ server, informer }) => {
    await until(() => server.watches.length === 1);
    server.endInitialEvents(4);
    await informer.synced;
    server.push("ADDED", node("a", 5));
    await until(() => informer.store.get("a") !== undefined);
    server.watchFailures = [410, 410, 410];
    const expired = { kind: "Status", code: 410, reason: "Expired" };
    server.push("ERROR", expired);
    await until(() => server.watches.length === 5);
    // In the midst of the objects, too.
    server.push("ADDED", node("a", 5));
    server.push("ERROR", expired);
    await until(() => server.watches.length === 6);
    assert.deepEqual(delays, [1, 2, 4, 8, 16]);
  }, { backoff });
});

Deno.test("Informer that is cut off each time before it has read all reads again with growing pauses, however long it took", async () => {
  const delays: number[] = [];
  const backoff = recordedBackoff(delays);
  const { now } = performance;
  let lateMs = 0;
  performance.now = () => now.call(performance) + lateMs;
  try {
    await followStream(async ({ server }) => {
      for (let reads = 1; reads <= 6; reads++) {
        await until(() => server.watches.length === reads);
        server.push("ADDED", node("a", 1));
        lateMs += 60_000;
        if (reads % 2 === 0) server.push("ERROR", { code: 410 });
        else server.end();
      }
      await until(() => server.watches.length === 7);
      assert.deepEqual(delays, [1, 2, 4, 8, 16, 32]);
    }, { backoff });
  } finally {
    performance.now = now;
  }
});

for (
  const [status, what, again] of [
    [504, "a server that was restored from a backup", "?limit=500"],
    [503, "a server that starts", "?resourceVersion=1"],
  ] as const
) {
  Deno.test(`Informer lists again from ${what} with ${again}`, async () => {
    await follow({}, async ({ server }) => {
      await until(() => server.watches.length === 1);
      server.listFailure = { status, body: "no" };
      server.push("ERROR", { kind: "Status", code: 410, reason: "Expired" });
      await until(() => server.lists.length >= 3);
      server.listFailure = undefined;
      await until(() => server.watches.length === 2);
      assert.deepEqual(server.lists.slice(1, 3), [
        "?resourceVersion=1",
        again,
      ]);
    }, (server) => server.items = [node("a", 1)]);
  });
}

Deno.test("Informer goes on after every kind of failure", async () => {
  for (const status of [403, 404, 429, 500]) {
    await follow({}, async ({ server, informer }) => {
      await until(() => server.lists.length >= 3);
      assert.equal(informer.hasSynced, false);
      server.listFailure = undefined;
      await informer.synced;
    }, (server) => server.listFailure = { status, body: "no" });
  }
});

Deno.test("Informer survives half an object and watches on", async () => {
  await follow({}, async ({ server, informer }) => {
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 4));
    server.raw('{"type":"MODIFIED","object":{"metadata":{"name":"a"');
    server.end();
    await until(() => server.watches.length === 2);
    assert.equal(server.watches[1], "4");
    assert.equal(informer.store.get("a")?.metadata?.resourceVersion, "4");
  });
});

Deno.test("Informer keeps objects as its transform returns them and finds them by index", async () => {
  const options: InformerOptions<V1Node> = {
    transform: ({ metadata }) => metadata === undefined ? {} : { metadata },
    indexes: { zone: (n) => Object.values(n.metadata?.labels ?? {}) },
  };
  await follow(options, async ({ server, informer }) => {
    await informer.synced;
    const names = (zone: string) =>
      informer.store.byIndex("zone", zone).map((n) => n.metadata?.name);
    assert.deepEqual(names("z1"), ["a"]);
    assert.equal(informer.store.get("a")?.spec, undefined);
    await until(() => server.watches.length === 1);
    server.push("MODIFIED", node("a", 5, { zone: "z2" }));
    await until(() => names("z2").length === 1);
    assert.deepEqual(names("z1"), []);
    server.push("DELETED", node("a", 6, { zone: "z2" }));
    await until(() => names("z2").length === 0);
    assert.throws(() => informer.store.byIndex("none", "x"), RangeError);
  }, (server) => {
    const spec = { podCIDR: "10.0.0.0/24" };
    server.items = [{ ...node("a", 1, { zone: "z1" }), spec }];
  });
});

Deno.test("Informer drops what is not to be kept, and what is kept no longer is deleted", async () => {
  const options: InformerOptions<V1Node> = {
    keep: ({ metadata }) => metadata?.labels?.["zone"] === "z1",
    transform: ({ metadata: { labels: _, ...metadata } = {} }) => ({
      metadata,
    }),
  };
  const [z1, z2] = [{ zone: "z1" }, { zone: "z2" }];
  await follow(options, async ({ server, informer, changes }) => {
    await informer.synced;
    await until(() => server.watches.length === 1);
    assert.deepEqual(informer.store.keys(), ["a"]);
    server.push("ADDED", node("c", 4, z2));
    server.push("DELETED", node("c", 5, z2));
    server.push("MODIFIED", node("b", 6, z1));
    server.push("MODIFIED", node("a", 7, z2));
    server.push("DELETED", node("a", 8, z1));
    server.push("ADDED", node("d", 9, z1));
    await until(() => changes.includes("added d"));
    assert.deepEqual(changes, ["added a", "added b", "deleted a", "added d"]);
    changes.length = 0;
    server.items = [node("b", 10, z2), node("d", 9, z1), node("e", 11, z2)];
    server.version = 12;
    server.push("ERROR", { kind: "Status", code: 410, reason: "Expired" });
    await until(() => server.watches.length === 2);
    assert.deepEqual(changes, ["deleted b"]);
    assert.deepEqual(informer.store.keys(), ["d"]);
    assert.deepEqual(server.watches, ["3", "12"]);
  }, (server) => {
    server.items = [node("a", 1, z1), node("b", 2, z2)];
    server.version = 3;
  });
});

Deno.test("Informer watches on from the version of an object that it dropped", async () => {
  await follow({ keep: () => false }, async ({ server, changes }) => {
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 44));
    server.end();
    await until(() => server.watches.length === 2);
    assert.deepEqual(server.watches, ["1", "44"]);
    assert.deepEqual(changes, []);
  });
});

Deno.test("Informer keeps no managedFields", async () => {
  await follow({}, async ({ server, informer }) => {
    await until(() => server.watches.length === 1);
    const { metadata } = node("b", 4);
    server.push("ADDED", { metadata: { ...metadata, managedFields: [{}] } });
    await until(() => informer.store.size === 2);
    for (const object of informer.store.list()) {
      assert.ok(!Object.hasOwn(object.metadata ?? {}, "managedFields"));
    }
  }, (server) => {
    const { metadata } = node("a", 1);
    server.items = [{ metadata: { ...metadata, managedFields: [{}] } }];
  });
});

Deno.test("Informer outlives a listener that throws", async () => {
  await follow({}, async ({ server, informer }) => {
    informer.subscribe(() => {
      throw new Error("bad listener");
    });
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 4));
    server.push("ADDED", node("b", 5));
    await until(() => informer.store.size === 2);
  });
});

Deno.test("subscribe() replays on request and stops with its disposal", async () => {
  await follow({}, async ({ server, informer, changes }) => {
    await until(() => server.watches.length === 1);
    const seen: string[] = [];
    const subscription = informer.subscribe(
      ({ type, key }) => seen.push(`${type} ${key}`),
      { replay: true },
    );
    assert.deepEqual(seen, ["added a"]);
    subscription[Symbol.dispose]();
    server.push("ADDED", node("b", 4));
    await until(() => changes.includes("added b"));
    assert.deepEqual(seen, ["added a"]);
  }, (server) => server.items = [node("a", 1)]);
});

Deno.test("subscribe() replays each object once, also while all are read for the first time", async () => {
  await followStream(async ({ server, informer }) => {
    await until(() => server.watches.length === 1);
    server.push("ADDED", node("a", 1));
    await until(() => informer.store.size === 1);
    const changes: string[] = [];
    const note = ({ type, key }: { type: string; key: string }) =>
      changes.push(`${type} ${key}`);
    using _subscription = informer.subscribe(note, { replay: true });
    assert.deepEqual(changes, []);
    server.end();
    await until(() => server.watches.length === 2);
    assert.deepEqual(changes, ["added a"]);
    using _again = informer.subscribe(note, { replay: true });
    assert.deepEqual(changes, ["added a", "added a"]);
  });
});

Deno.test("Informer pauses between watches that end after one bookmark", async () => {
  let watches = 0;
  const bookmark = { metadata: { resourceVersion: "5" } };
  const transport = new FakeTransport((request) => {
    if (!request.path.includes("watch=true")) {
      return { body: { metadata: { resourceVersion: "1" }, items: [] } };
    }
    watches++;
    return {
      body: `${JSON.stringify({ type: "BOOKMARK", object: bookmark })}\n`,
    };
  });
  const informer = new Informer(new KubeClient(transport), NODES, {
    backoff: new Backoff({ initialMs: 60, maxMs: 60, jitter: 0 }),
  });
  const controller = new AbortController();
  const running = informer.run(controller.signal);
  await informer.synced;
  await sleep(200);
  controller.abort();
  await running;
  assert.ok(watches >= 2 && watches <= 4, `${watches} watches in 200 ms`);
});

Deno.test("Informer forgets nothing because of an answer that is no list", async () => {
  await follow({}, async ({ server, informer, changes }) => {
    await until(() => server.watches.length === 1);
    server.listFailure = { status: 200, body: {} };
    server.push("ERROR", { code: 410, reason: "Expired" });
    await until(() => server.lists.length >= 3);
    assert.deepEqual(informer.store.keys(), ["a"]);
    assert.deepEqual(changes, ["added a"]);
    server.listFailure = undefined;
    await until(() => server.watches.length === 2);
  }, (server) => server.items = [node("a", 1)]);
});

Deno.test("Informer lists again after an error inside a watch, which might come again for ever", async () => {
  await follow({}, async ({ server }) => {
    await until(() => server.watches.length === 1);
    const message = "unable to decode an object in the watch event";
    server.push("ERROR", { code: 500, reason: "InternalError", message });
    await until(() => server.watches.length === 2);
    assert.equal(server.lists.length, 2);
  });
});

/** Follows a server that refuses everything, and returns the delays between the attempts. */
async function delaysOf(
  attempts: number,
  listFailure: Server["listFailure"] = { status: 503, body: "no" },
): Promise<number[]> {
  const server = new Server();
  server.listFailure = listFailure;
  const stop = new AbortController();
  const clock = new RecordingClock((count) => {
    if (count === attempts) stop.abort();
  });
  const informer = new Informer(new KubeClient(server.transport), NODES, {
    clock,
  });
  await informer.run(stop.signal);
  return clock.delays;
}

Deno.test("Informer comes back within a second after the first failure, thousands of them one by one", async () => {
  const firsts: number[] = [];
  for (let i = 0; i < 100; i++) {
    const [first = NaN] = await delaysOf(1);
    firsts.push(first);
  }
  assert.ok(firsts.every((ms) => ms >= 0 && ms <= 1_000), `${firsts}`);
  assert.ok(firsts.some((ms) => ms < 200) && firsts.some((ms) => ms > 800));
});

Deno.test("Informer asks a server that stays away once in 30 s at most, at any moment of them", async () => {
  const delays = await delaysOf(200);
  const most = [1_000, 2_000, 4_000, 8_000, 16_000];
  delays.forEach((ms, i) =>
    assert.ok(ms <= (most[i] ?? 30_000), `${i}: ${ms}`)
  );
  const late = delays.slice(most.length);
  assert.ok(late.some((ms) => ms < 6_000) && late.some((ms) => ms > 24_000));
});

Deno.test("Informer leaves a server alone for as long as it asks, thousands of them not together", async () => {
  const refusal = (seconds: number) => ({
    status: 429,
    body: { kind: "Status", details: { retryAfterSeconds: seconds } },
  });
  const firsts: number[] = [];
  for (let i = 0; i < 100; i++) {
    const [first = NaN] = await delaysOf(1, refusal(7));
    firsts.push(first);
  }
  assert.ok(firsts.every((ms) => ms >= 7_000 && ms <= 8_000), `${firsts}`);
  assert.ok(firsts.some((ms) => ms < 7_200) && firsts.some((ms) => ms > 7_800));
  // A bad value does not keep it away for good.
  const [longest = NaN] = await delaysOf(1, refusal(86_400));
  assert.ok(longest <= 31_000, `${longest}`);
});

/** An informer of pods of which those named in `kept` are kept, on a server whose lists wait for `release`. */
async function refreshing(
  test: (context: {
    server: Server;
    kept: Set<string>;
    changes: string[];
    /** Refreshes; the server's list is answered by `answer`. */
    refresh: (
      options?: { readonly beside?: () => Promise<void> },
    ) => Promise<void>;
    names: () => string[];
    until: (changes: number) => Promise<void>;
  }) => Promise<void>,
): Promise<void> {
  const server = new Server();
  server.items = [node("a", 1), node("b", 2)];
  server.version = 3;
  const kept = new Set(["a"]);
  const nameOf = (pod: V1Pod) => pod.metadata?.name ?? "";
  const client = new KubeClient(server.transport);
  const informer = new Informer<V1Pod>(client, PODS, {
    backoff: new Backoff({ initialMs: 1, maxMs: 2 }),
    keep: (pod) => kept.has(nameOf(pod)),
    transform: ({ metadata }) => ({
      metadata: { ...metadata, labels: { kept: [...kept].join() } },
    }),
  });
  const changes: string[] = [];
  const stop = new AbortController();
  const running = informer.run(stop.signal);
  await informer.synced;
  informer.subscribe(({ type, object, before }) => {
    const labels = [before, object].map((pod) =>
      pod?.metadata?.labels?.["kept"]
    );
    changes.push(`${type} ${nameOf(object)}: ${labels.join(" to ")}`);
  });
  await until(() => server.watches.length === 1);
  const listItems = client.list.bind(client);
  let beside = () => Promise.resolve();
  client.list = async (...args) => {
    const answer = await listItems(...args);
    await beside();
    return answer;
  };
  try {
    await test({
      server,
      kept,
      changes,
      names: () => informer.store.keys().toSorted(),
      until: (count) => until(() => changes.length === count),
      refresh: async (options) => {
        beside = options?.beside ?? (() => Promise.resolve());
        await informer.refresh("team", { signal: stop.signal });
      },
    });
  } finally {
    stop.abort();
    await running;
  }
}

Deno.test("Informer.refresh() judges objects again whose version is known", async () => {
  await refreshing(async ({ server, kept, changes, names, refresh }) => {
    kept.add("b");
    await refresh();
    assert.deepEqual(changes, ["updated a: a to a,b", "added b:  to a,b"]);
    assert.deepEqual(names(), ["a", "b"]);
    kept.delete("a");
    await refresh();
    assert.deepEqual(changes.slice(2), [
      "deleted a:  to a,b",
      "updated b: a,b to b",
    ]);
    assert.deepEqual(server.lists.slice(1), ["?limit=500", "?limit=500"]);
  });
});

Deno.test("Informer.refresh() lets what the watch brings count more", async () => {
  await refreshing(async (lab) => {
    const { server, kept, changes, names, refresh } = lab;
    kept.add("b").add("c");
    await refresh({
      beside: async () => {
        server.push("DELETED", node("b", 4));
        server.push("MODIFIED", node("a", 5));
        await lab.until(1);
      },
    });
    assert.deepEqual(changes, ["updated a: a to a,b,c"]);
    assert.deepEqual(names(), ["a"]);
  });
});

Deno.test("Informer.refresh() changes nothing while all objects are read, and can be tried again", async () => {
  await refreshing(async (lab) => {
    const { server, kept, names, refresh } = lab;
    kept.add("b");
    const lists = server.lists.length;
    const beside = async () => {
      server.push("ERROR", { kind: "Status", code: 410, reason: "Expired" });
      await until(() => server.lists.length > lists + 1);
      await until(() => server.watches.length === 2);
    };
    await assert.rejects(refresh({ beside }), /all are being read/);
    await refresh();
    assert.deepEqual(names(), ["a", "b"]);
  });
});

Deno.test("Informer.refresh() fails with the server, and changes nothing", async () => {
  await refreshing(async ({ server, kept, changes, refresh }) => {
    kept.add("b");
    server.listFailure = { status: 403, body: {} };
    await assert.rejects(refresh());
    assert.deepEqual(changes, []);
  });
});
