import assert from "node:assert/strict";
import { GATEWAY_LABELS } from "../../../lib/api/mod.ts";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  KubeClient,
  KubeUnreachableError,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { FakeTransport, MemoryApi } from "../../../lib/kube/testing.ts";
import {
  NotReadyError,
  PodNotFoundError,
  PoolRefusedError,
} from "../base/errors.ts";
import { PodSource } from "./pod_source.ts";

const { signal } = new AbortController();

/** A source whose API server has these objects, by the end of their path. */
function sourceOf(objects: Readonly<Record<string, object>>): PodSource {
  const transport = new FakeTransport(({ path }) => {
    const body = objects[path.split("/").at(-1)?.split("?")[0] ?? ""];
    return body === undefined
      ? { status: 404, body: { kind: "Status", code: 404, reason: "NotFound" } }
      : { body };
  });
  return new PodSource(new KubeClient(transport), {
    nodeName: "node1",
    pools: true,
    defaultEgresses: true,
  });
}

Deno.test("poolsOf() gives the namespace's pools, else the default one, but none to a namespace that does not exist", async () => {
  const annotations = { "coil.cybozu.com/pool": "global" };
  const source = sourceOf({
    chosen: { metadata: { name: "chosen", annotations } },
    plain: { metadata: { name: "plain" } },
  });
  const poolsOf = async (namespace: string) => {
    const pod = { namespace, name: "web", annotations: {} };
    const { pools, from } = await source.poolsOf(pod, { signal });
    return [...pools, from];
  };
  assert.deepEqual(await poolsOf("chosen"), ["global", "namespace"]);
  assert.deepEqual(await poolsOf("plain"), ["default", "default"]);
  await assert.rejects(poolsOf("unknown"), PodNotFoundError);
});

Deno.test("poolsOf() gives a pod the pools that it names, where its namespace lists them", async () => {
  await using site = new Site();
  site.putNamespace({
    "coil.cybozu.com/pool": "usual",
    "coil.cybozu.com/pod-pools": "blue,green",
  });
  for (const [name, pool] of [["ok", "green"], ["wrong", "usual"]] as const) {
    site.put(name, { annotations: { "coil.cybozu.com/pool": pool } });
  }
  site.put("long", {
    annotations: { "coil.cybozu.com/pool": "x".repeat(5_000) },
  });
  const source = await site.follow();
  const poolsOf = async (name: string) => {
    const pod = await source.find({ namespace: "team", name }, { signal });
    return await source.poolsOf(pod, { signal });
  };
  const { pools, from } = await poolsOf("ok");
  assert.deepEqual([pools, from], [["green"], "pod"]);
  await assert.rejects(
    poolsOf("wrong"),
    (error) =>
      error instanceof PoolRefusedError &&
      error.message ===
        'Cannot give pod "team/wrong" an address of pool "usual", which its annotation "coil.cybozu.com/pool" names: its namespace allows blue, green; correct it, or annotation "coil.cybozu.com/pod-pools" of the namespace',
  );
  await assert.rejects(
    poolsOf("long"),
    (error) =>
      error instanceof PoolRefusedError &&
      error.message.includes(`pool "${"x".repeat(64)}"`),
  );
});

/** A source whose caches follow an API server in memory. */
class Site implements AsyncDisposable {
  readonly api = new MemoryApi();
  readonly source = new PodSource(new KubeClient(this.api), {
    nodeName: "node1",
    pools: true,
    defaultEgresses: true,
  });
  readonly #group = new TaskGroup();

  /** Stores a pod. */
  put(name: string, { node = "node1", annotations = {}, ip, uid, host }: {
    readonly node?: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ip?: string;
    readonly uid?: string;
    readonly host?: true;
  } = {}): void {
    this.api.put("pods", {
      metadata: {
        namespace: "team",
        name,
        annotations,
        ...(uid !== undefined && { uid }),
      },
      spec: { nodeName: node, ...(host && { hostNetwork: true }) },
      status: { podIPs: ip === undefined ? [] : [{ ip }] },
    });
  }

  /** Stores the pods' namespace. */
  putNamespace(annotations: Readonly<Record<string, string>> = {}): void {
    this.api.put("namespaces", { metadata: { name: "team", annotations } });
  }

  async follow(): Promise<PodSource> {
    this.#group.runAll(this.source.loops);
    await this.source.synced();
    return this.source;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#group[Symbol.asyncDispose]();
  }
}

const POD = { namespace: "team", name: "web" };
const ANNOTATIONS = { "coil.cybozu.com/any-source": "true" };

Deno.test("find() believes the runtime first, then the cache, then the API server", async () => {
  await using site = new Site();
  site.putNamespace();
  site.put("web", { annotations: ANNOTATIONS, uid: "u1" });
  const query = { ...POD, annotations: { told: "yes" } };
  const asked = await site.source.find(POD, { signal });
  assert.equal(asked.from, "api");
  assert.deepEqual(asked.annotations, ANNOTATIONS);
  const source = await site.follow();
  const { request } = site.api;
  site.api.request = () => assert.fail("Asked although it is in the cache");
  const cached = await source.find(POD, { signal });
  assert.deepEqual([cached.from, cached.uid], ["cache", "u1"]);
  assert.equal(cached.isGateway, false);
  const told = await source.find(query, { signal });
  assert.deepEqual(
    [told.from, told.uid, told.annotations],
    ["runtime", "u1", { told: "yes" }],
  );
  site.api.request = request;
  const other = await source.find({ ...query, uid: "u2" }, { signal });
  assert.deepEqual([other.from, other.uid], ["runtime", undefined]);
  await assert.rejects(
    source.find({ ...POD, name: "none" }, { signal }),
    PodNotFoundError,
  );
});

Deno.test("find() takes a runtime's word when the API server does not answer, but not for a client of an Egress", async () => {
  const unreachable = new KubeClient(
    new FakeTransport(() => ({ status: 403, body: {} })),
  );
  const source = new PodSource(unreachable, {
    nodeName: "node1",
    pools: true,
    defaultEgresses: false,
  });
  const told = await source.find({ ...POD, annotations: {} }, { signal });
  assert.deepEqual([told.from, told.uid], ["runtime", undefined]);
  const annotations = { "egress.coil.cybozu.com/nat": "internet" };
  await assert.rejects(source.find({ ...POD, annotations }, { signal }));
  await assert.rejects(source.find(POD, { signal }));
});

Deno.test("find() does not take a runtime's word for a caller that left, nor for what it did not understand", async () => {
  const broken = new FakeTransport(() => {
    throw new TypeError("not a URL");
  });
  const source = new PodSource(new KubeClient(broken), {
    nodeName: "node1",
    pools: true,
    defaultEgresses: true,
  });
  const query = { ...POD, annotations: {} };
  await assert.rejects(source.find(query, { signal }), /not a URL/);
  const left = new AbortController();
  const leaving = new PodSource(
    new KubeClient(
      new FakeTransport(() => {
        left.abort(new Error("the caller left"));
        return { status: 403, body: {} };
      }),
    ),
    { nodeName: "node1", pools: true, defaultEgresses: true },
  );
  await assert.rejects(leaving.find(query, { signal: left.signal }));
});

Deno.test("find() refuses a pod of another node", async () => {
  await using site = new Site();
  site.put("web", { node: "node2" });
  const finding = site.source.find({ ...POD, annotations: {} }, { signal });
  await assert.rejects(finding, NotReadyError);
});

Deno.test("listLive() asks for the newest pods of this node in one page", async () => {
  const transport = new FakeTransport(() => ({ body: { items: [] } }));
  const source = new PodSource(new KubeClient(transport), {
    nodeName: "node1",
    pools: true,
    defaultEgresses: true,
  });
  assert.deepEqual(await source.listLive({ signal }), []);
  assert.deepEqual(transport.requests.map(({ path }) => path), [
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode1",
  ]);
});

Deno.test("the caches know this node's pods, their Egresses and their addresses", async () => {
  await using site = new Site();
  const annotations = { "egress.coil.cybozu.com/nat": "internet,dmz" };
  site.putNamespace();
  site.put("a", { annotations, ip: "10.64.0.1" });
  site.put("b", { ip: "10.64.0.1" });
  site.put("c", { ip: "10.64.0.1", host: true });
  site.put("d", { ip: "10.64.0.1", node: "node2" });
  assert.equal(site.source.isSynced, false);
  const source = await site.follow();
  assert.equal(source.isSynced, true);
  const names = (pods: readonly V1Pod[]) =>
    pods.map(({ metadata }) => metadata?.name).toSorted();
  assert.deepEqual(names(source.list()), ["a", "b", "c"]);
  assert.deepEqual(names(source.clientsOf("nat/dmz")), ["a"]);
  assert.deepEqual(names(source.clientsOf("nat/other")), []);
  assert.ok(source.hasClientsOf("nat"));
  assert.ok(!source.hasClientsOf("other"));
  const pod = source.get("team/a");
  assert.ok(pod);
  assert.deepEqual(names(source.withSameAddress(pod)), ["b"]);
  const address = Address.parse("10.64.0.1");
  assert.deepEqual(names(source.withAddress(address)), ["a", "b"]);
  assert.deepEqual(
    ["uid-of-pods/team/a", "uid-of-pods/team/b", "another"]
      .map((uid) => source.isOfAnother(address, uid)),
    [false, false, true],
  );
  assert.ok(!source.isOfAnother(Address.parse("10.64.0.99"), "another"));
  assert.equal(source.uidOf("team", "a"), "uid-of-pods/team/a");
  assert.equal(source.uidOf("team", "none"), undefined);
});

const DEFAULTS = { "egress.coil.cybozu.com/nat": "internet" };

Deno.test("a pod uses the Egresses of its namespace by default, but not one with an annotation of that key, and no gateway", async () => {
  await using site = new Site();
  site.putNamespace({ ...DEFAULTS, "coil.cybozu.com/pool": "other" });
  const source = await site.follow();
  const usedBy = async (
    annotations: Readonly<Record<string, string>>,
    labels: Readonly<Record<string, string>> = {},
  ) => {
    const metadata = { namespace: "team", name: "web", annotations, labels };
    site.api.put("pods", { metadata, spec: { nodeName: "node1" } });
    await untilPasses(() => {
      const cached = source.get("team/web")?.metadata;
      assert.equal(
        cached?.resourceVersion,
        site.api.get("pods/team/web")?.metadata?.resourceVersion,
      );
    });
    const asked = source.get("team/web");
    assert.ok(asked);
    const { annotations: found } = await source.find(POD, { signal });
    assert.deepEqual(source.annotationsOf(asked), found);
    assert.equal(
      source.clientsOf("nat/internet").length,
      found["egress.coil.cybozu.com/nat"] === "internet" ? 1 : 0,
    );
    const query = { ...POD, annotations };
    const told = await source.find(query, { signal });
    assert.deepEqual(told.annotations, found);
    return found;
  };
  assert.deepEqual(await usedBy({}), DEFAULTS);
  assert.ok(source.hasClientsOf("nat"));
  const other = { "egress.coil.cybozu.com/dmz": "own" };
  assert.deepEqual(await usedBy(other), { ...DEFAULTS, ...other });
  const none = { "egress.coil.cybozu.com/nat": "" };
  assert.deepEqual(await usedBy(none), none);
  assert.ok(!source.hasClientsOf("nat"));
  assert.deepEqual(await usedBy({}, GATEWAY_LABELS), {});
});

Deno.test("find() does not let a pod start without the Egress of a namespace that it cannot read", async () => {
  await using site = new Site();
  site.putNamespace(DEFAULTS);
  site.put("web");
  const { request } = site.api;
  site.api.request = () =>
    Promise.reject(new KubeUnreachableError("Cannot connect"));
  const query = { ...POD, annotations: {} };
  await assert.rejects(site.source.find(query, { signal }));
  site.api.request = request;
  const asked = await site.source.find(query, { signal });
  assert.deepEqual(asked.annotations, DEFAULTS, "by a call");
  const source = await site.follow();
  site.api.request = () => assert.fail("Asked although it is in the cache");
  const cached = await source.find(query, { signal });
  assert.deepEqual(cached.annotations, DEFAULTS, "by the cache");
});

Deno.test("an ADD reads a namespace once that the cache does not have", async () => {
  const metadata = {
    annotations: { "coil.cybozu.com/pool": "blue", ...ANNOTATIONS },
    labels: { "coil.cybozu.com/allow-any-source": "true" },
  };
  const transport = new FakeTransport(() => ({ body: { metadata } }));
  const source = new PodSource(new KubeClient(transport), {
    nodeName: "node1",
    pools: true,
    defaultEgresses: true,
  });
  const pod = await source.find(POD, { signal });
  const { pools } = await source.poolsOf(pod, { signal });
  assert.deepEqual(pools, ["blue"]);
  assert.equal(await source.sourcesOf(pod, { signal }), "any");
  assert.deepEqual(
    transport.requests.map(({ path }) => path.split("?")[0]),
    ["/api/v1/namespaces/team", "/api/v1/namespaces/team/pods/web"],
  );
});

Deno.test("a pod whose namespace is not known yet has annotations that are not known", async () => {
  await using site = new Site();
  site.put("web");
  const source = await site.follow();
  const pod = source.get("team/web");
  assert.ok(pod);
  assert.equal(source.annotationsOf(pod), undefined);
  assert.deepEqual(source.clientsOf("nat/internet"), []);
  const known = Promise.withResolvers<void>();
  using _ = source.subscribeNamespaces(() => known.resolve());
  site.putNamespace(DEFAULTS);
  await known.promise;
  assert.deepEqual(source.annotationsOf(pod), DEFAULTS);
  assert.deepEqual(
    source.inNamespace("team").map(({ metadata }) => metadata?.name),
    ["web"],
  );
  assert.deepEqual(source.inNamespace("other"), []);
});

Deno.test("any source takes the pod's annotation and the namespace's label", async () => {
  await using site = new Site();
  const label = { "coil.cybozu.com/allow-any-source": "true" };
  site.put("plain");
  site.put("asks", { annotations: ANNOTATIONS });
  const choices = (source: PodSource) =>
    ["plain", "asks"].map((name) => {
      const pod = source.get(`team/${name}`);
      return pod && source.knownSourcesOf(pod);
    });
  const source = await site.follow();
  assert.deepEqual(choices(source), ["own", undefined]);
  const ask = (annotations: Readonly<Record<string, string>>) =>
    source.sourcesOf({ namespace: "team", annotations }, { signal });
  assert.equal(await ask({}), "own");
  assert.equal(await ask(ANNOTATIONS), "refused");
  for (
    const [labels, expected] of [[{}, "refused"], [label, "any"]] as const
  ) {
    const changed = Promise.withResolvers<void>();
    using _subscription = source.subscribeNamespaces(() => changed.resolve());
    site.api.put("namespaces", { metadata: { name: "team", labels } });
    await changed.promise;
    assert.deepEqual(choices(source), ["own", expected]);
    assert.equal(await ask(ANNOTATIONS), expected);
  }
});
