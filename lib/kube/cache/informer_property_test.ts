import assert from "node:assert/strict";
import fc from "fast-check";
import { Backoff, sleep } from "../../async/mod.ts";
import { KubeClient } from "../client/client.ts";
import { Informer } from "./informer.ts";
import { NODES } from "../api/resource.ts";
import { FakeTransport } from "../testing.ts";

/** What becomes of objects, or of an answer of the server. */
type Act =
  | { readonly kind: "put" | "remove"; readonly name: string }
  /** The next answer ends early; or versions up to now become too old. */
  | { readonly kind: "cut" | "expire" };

const NAME = fc.constantFrom("a", "b", "c", "d");
const ACTS = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: kinds("put"), name: NAME }) },
    { weight: 2, arbitrary: fc.record({ kind: kinds("remove"), name: NAME }) },
    { weight: 2, arbitrary: fc.record({ kind: kinds("cut", "expire") }) },
  ),
  { maxLength: 15 },
);

function kinds<K extends Act["kind"]>(...all: readonly K[]): fc.Arbitrary<K> {
  return fc.constantFrom(...all);
}

/** As many messages of a watch as it has unless it is cut. */
const WHOLE = 5;

interface ClusterEvent {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly name: string;
}

/** An API server, with or without WatchList. */
class Cluster {
  readonly transport: FakeTransport;
  readonly #objects = new Map<string, number>();
  readonly #events: ClusterEvent[] = [];
  readonly #cuts: number[] = [];
  #version = 1;
  #oldest = 0;

  constructor({ streamsLists }: { readonly streamsLists: boolean }) {
    this.transport = new FakeTransport(({ path }) => {
      const { searchParams } = new URL(path, "http://x");
      return searchParams.get("watch") === "true"
        ? { lines: this.#watch(searchParams) }
        : this.#list();
    }, { streamsLists });
  }

  get objects(): string {
    return textOf(this.#objects);
  }

  act(act: Act): void {
    if (act.kind === "cut") this.#cuts.push(this.#version % 3);
    if (act.kind === "expire") this.#oldest = this.#version;
    if (!("name" in act)) return;
    const { kind, name } = act;
    const has = this.#objects.has(name);
    if (kind === "remove" && !has) return;
    const version = ++this.#version;
    const put = has ? "MODIFIED" : "ADDED";
    const type = kind === "remove" ? "DELETED" : put;
    if (kind === "remove") this.#objects.delete(name);
    else this.#objects.set(name, version);
    this.#events.push({ version, type, name });
  }

  #list() {
    if (this.#cuts.shift() !== undefined) return { status: 500, body: "no" };
    const items = [...this.#objects].map(([name, version]) =>
      object(name, version)
    );
    return {
      body: { metadata: { resourceVersion: `${this.#version}` }, items },
    };
  }

  async *#watch(search: URLSearchParams) {
    const end = this.#cuts.shift() ?? WHOLE;
    let sent = 0;
    for await (const line of this.#lines(search)) {
      if (sent++ >= end) return;
      yield line;
    }
  }

  async *#lines(search: URLSearchParams) {
    const isFromAll = search.has("sendInitialEvents");
    let from = Number(search.get("resourceVersion") ?? 0);
    if (!isFromAll && from < this.#oldest) {
      yield { type: "ERROR", object: { kind: "Status", code: 410 } };
      return;
    }
    if (isFromAll) {
      from = this.#version;
      for (const [name, version] of [...this.#objects]) {
        yield { type: "ADDED", object: object(name, version) };
        await sleep(0);
      }
    }
    for (let n = 0; n < 20; n++) {
      for (const event of this.#events.filter((e) => e.version > from)) {
        from = event.version;
        yield { type: event.type, object: object(event.name, from) };
      }
      // What has changed since comes before the end of all objects, too.
      if (isFromAll && n === 0) yield endOfAll(from);
      await sleep(1);
    }
  }
}

function object(name: string, version: number) {
  const uid = `uid-${name}`;
  return { metadata: { name, uid, resourceVersion: `${version}` } };
}

function endOfAll(version: number) {
  const annotations = { "k8s.io/initial-events-end": "true" };
  const metadata = { resourceVersion: `${version}`, annotations };
  return { type: "BOOKMARK", object: { metadata } };
}

function textOf(objects: ReadonlyMap<string, unknown>): string {
  return [...objects].map((entry) => entry.join(" ")).sort().join();
}

/** Lets an informer follow while all that happens; what its listener knows in the end, and what it could not know. */
async function listen(cluster: Cluster, acts: readonly Act[]) {
  const informer = new Informer(new KubeClient(cluster.transport), NODES, {
    backoff: new Backoff({ initialMs: 1, maxMs: 2 }),
  });
  const known = new Map<string, unknown>();
  const faults: string[] = [];
  informer.subscribe(({ type, key, object: { metadata } }) => {
    if (known.has(key) === (type === "added")) faults.push(`${type} ${key}`);
    if (type === "deleted") known.delete(key);
    else known.set(key, metadata?.resourceVersion);
  });
  const stop = new AbortController();
  const running = informer.run(stop.signal);
  for (const act of acts) {
    cluster.act(act);
    if (act.kind !== "put") await sleep(1);
  }
  // Of half a reading, listeners know when it ends.
  const isCurrent = () =>
    informer.store.size === known.size && textOf(known) === cluster.objects;
  for (let n = 0; n < 2_000 && !isCurrent(); n++) await sleep(1);
  stop.abort();
  await running;
  return { faults, known: textOf(known) };
}

for (const streamsLists of [true, false]) {
  const how = streamsLists ? "sends them one by one" : "lists them";
  Deno.test(`an Informer's listeners know each object, with any stream cut off while the server ${how}`, async () => {
    await fc.assert(
      fc.asyncProperty(ACTS, ACTS, async (before, acts) => {
        const cluster = new Cluster({ streamsLists });
        for (const act of before) cluster.act(act);
        const { faults, known } = await listen(cluster, acts);
        assert.deepEqual(faults, []);
        assert.equal(known, cluster.objects);
      }),
      { numRuns: 20 },
    );
  });
}
