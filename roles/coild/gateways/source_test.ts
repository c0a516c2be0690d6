import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import {
  FakeClock,
  untilPasses,
  untilStopped,
} from "../../../lib/async/testing.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { EgressSource } from "./source.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

configureLogging({ write: () => {} });

/** 50 Egresses of 20 namespaces. */
const REFS: readonly NamespacedName[] = Array.from({ length: 50 }, (_, n) => ({
  namespace: `nat${n % 20}`,
  name: `e${n}`,
}));

const labels = {
  "app.kubernetes.io/name": "coil",
  "app.kubernetes.io/component": "egress",
};

/** An Egress, and what belongs to it. */
function objectOf(plural: string, { namespace, name }: NamespacedName): object {
  const spec = { destinations: ["0.0.0.0/0"], clusterIPs: ["10.8.0.1"] };
  const own = { ...labels, "kubernetes.io/service-name": name };
  const metadata = { namespace, name, uid: `${plural}-${name}`, labels: own };
  return { metadata, spec, addressType: "IPv4", endpoints: [] };
}

/** Finds Egresses where these exist. */
async function finding(
  existing: readonly NamespacedName[],
  work: (f: {
    readonly source: EgressSource;
    readonly signal: AbortSignal;
    readonly clock: FakeClock;
    /** Namespaces that a pod names. */
    readonly named: Set<string>;
    /** Watches that are open. */
    readonly open: ReadonlySet<string>;
    /** Paths of requests of a kind. */
    readonly paths: (kind: "get" | "list" | "watch") => string[];
  }) => Promise<void>,
): Promise<void> {
  const open = new Set<string>();
  const asked: { kind: "get" | "list" | "watch"; path: string }[] = [];
  const transport = new FakeTransport(({ path, signal }) => {
    const { pathname, searchParams } = new URL(path, "http://x");
    const [, namespace = "", plural = "", name] =
      /namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?$/.exec(pathname) ?? [];
    const isWatch = searchParams.has("watch");
    const kind = isWatch ? "watch" : name === undefined ? "list" : "get";
    asked.push({ kind, path: pathname });
    if (isWatch) {
      return {
        lines: (async function* () {
          open.add(pathname);
          while (!signal?.aborted) await sleep(5);
          open.delete(pathname);
          yield "";
        })(),
      };
    }
    const [, service] = /service-name=(.+)$/.exec(
      searchParams.get("labelSelector") ?? "",
    ) ?? [];
    const wanted = name ?? service;
    const items = existing.filter((ref) =>
      ref.namespace === namespace && (wanted ?? ref.name) === ref.name
    ).map((ref) => objectOf(plural, ref));
    if (kind === "list") {
      return { body: { metadata: { resourceVersion: "1" }, items } };
    }
    return items.length > 0
      ? { body: items[0] }
      : { status: 404, body: { kind: "Status", reason: "NotFound" } };
  });
  const clock = new FakeClock();
  const named = new Set(REFS.map(({ namespace }) => namespace));
  const source = new EgressSource(new KubeClient(transport), {
    isNamed: (namespace) => named.has(namespace),
    clock,
  });
  const stop = new AbortController();
  const { signal } = stop;
  const running = Object.values(source.loops)
    .map((loop) => untilStopped(loop(signal), signal));
  await work({
    source,
    clock,
    named,
    open,
    signal,
    paths: (kind) =>
      asked.filter((a) => a.kind === kind).map(({ path }) => path),
  });
  stop.abort();
  await Promise.all(running);
}

Deno.test("find() finds 50 Egresses of 20 namespaces at once, and follows 16 of these", async () => {
  await finding(REFS, async ({ source, signal, paths }) => {
    for (let round = 0; round < 2; round++) {
      const found = await source.find(REFS, { signal });
      for (const { namespace, name } of REFS) {
        const facts = found.get(`${namespace}/${name}`);
        assert.ok(facts?.egress && facts.service, name);
        assert.equal(facts.slices.length, 1, name);
      }
    }
    await sleep(20);
    assert.equal(new Set(paths("watch")).size, 32);
    assert.equal(paths("watch").length, 32);
    const followed = REFS.map(({ namespace }) => namespace)
      .filter((namespace) => source.isFollowed(namespace));
    assert.equal(new Set(followed).size, 16);
  });
});

Deno.test("find() asks for 16 names that do not exist, and follows no namespace of these", async () => {
  await finding([], async ({ source, signal, paths }) => {
    const found = await source.find(REFS, { signal });
    assert.equal(found.size, REFS.length);
    assert.equal(paths("get").length, 16);
    assert.deepEqual(paths("watch"), []);
    assert.ok(REFS.every(({ namespace }) => !source.isFollowed(namespace)));
  });
});

Deno.test("a namespace is left when no pod has named it for five minutes, and others take its room", async () => {
  await finding(REFS, async ({ source, signal, clock, named, open }) => {
    await source.find(REFS, { signal });
    await untilPasses(() => assert.equal(open.size, 32));
    assert.ok(!source.isFollowed("nat16"));
    // Named no more, but asked for just now.
    named.delete("nat0");
    named.delete("nat1");
    await clock.advance(240_000);
    await source.find([REFS[1] ?? assert.fail()], { signal });
    await clock.advance(61_000);
    assert.ok(!source.isFollowed("nat0"));
    assert.ok(source.isFollowed("nat1"), "asked for a minute ago");
    assert.ok(source.isFollowed("nat2"), "named by a pod");
    await untilPasses(() => assert.equal(open.size, 30));
    await source.find([REFS[16] ?? assert.fail()], { signal });
    assert.ok(source.isFollowed("nat16"));
    await clock.advance(300_000);
    assert.ok(!source.isFollowed("nat1"));
    assert.ok(source.isFollowed("nat16"));
  });
});

Deno.test("Services of followed namespaces are read again about every five minutes", async () => {
  await finding(REFS, async ({ source, signal, clock, paths }) => {
    const reads = () =>
      paths("get").filter((path) => path.endsWith("/nat0/services/e0")).length;
    await source.find(REFS, { signal });
    await source.find(REFS, { signal });
    assert.equal(reads(), 1);
    await clock.advance(450_000);
    await untilPasses(() => assert.ok(reads() > 1));
  });
});

Deno.test("read() asks the API server for what is cached, too, once for all who ask at a time", async () => {
  const [ref = assert.fail(), other = assert.fail()] = REFS;
  await finding([ref], async ({ source, signal, paths }) => {
    await source.find([ref], { signal });
    const before = { get: paths("get").length, list: paths("list").length };
    const [first, second] = await Promise.all(
      [1, 2].map(() => source.read([ref, other], { signal })),
    );
    assert.deepEqual(first, second);
    assert.equal(first?.get("nat0/e0")?.slices.length, 1);
    assert.equal(first?.get("nat1/e1")?.egress, undefined);
    // Egress and Service, and the EndpointSlices, of both.
    assert.equal(paths("get").length - before.get, 4);
    assert.equal(paths("list").length - before.list, 2);
  });
});
