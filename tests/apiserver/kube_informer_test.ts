import assert from "node:assert/strict";
import { Backoff } from "../../lib/async/mod.ts";
import {
  CONFIG_MAPS,
  Informer,
  type InformerOptions,
  KubeApiError,
  KubeClient,
  KubeUnreachableError,
  NAMESPACES,
  type V1ConfigMap,
} from "../../lib/kube/mod.ts";
import {
  awaitedLater,
  ControlPlane,
  eventually,
  run,
  sleep,
} from "../lab/mod.ts";
import { GatedTransport } from "./gated_transport.ts";

const namespace = "default";
let plane: ControlPlane;
let admin: KubeClient;

Deno.test.beforeAll(async () => {
  plane = await ControlPlane.start({ name: "kubeinformer", audit: "metadata" });
  admin = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  await admin.get(NAMESPACES, { name: namespace });
});

Deno.test.afterAll(async () => {
  admin.close();
  await plane[Symbol.asyncDispose]();
});

/** For tests after which the API server, which outlives them, is another process. */
const RESTARTS = { sanitizeResources: false, sanitizeOps: false };

async function create(name: string, set: string): Promise<V1ConfigMap> {
  const labels = { set };
  return await admin.create(CONFIG_MAPS, {
    metadata: { name, namespace, labels },
    data: { value: "0" },
  });
}

async function remove(name: string): Promise<void> {
  await admin.delete(CONFIG_MAPS, { name, namespace });
}

interface Following extends AsyncDisposable {
  readonly informer: Informer<V1ConfigMap>;
  readonly changes: string[];
}

async function follow(
  client: KubeClient,
  options: InformerOptions<V1ConfigMap>,
): Promise<Following> {
  const changes: string[] = [];
  const informer = new Informer(client, CONFIG_MAPS, {
    namespace,
    backoff: new Backoff({ initialMs: 50, maxMs: 500 }),
    onChange: ({ type, object }) =>
      changes.push(`${type} ${object.metadata?.name}`),
    ...options,
  });
  const controller = new AbortController();
  const running = informer.run(controller.signal);
  await informer.synced;
  return {
    informer,
    changes,
    async [Symbol.asyncDispose]() {
      controller.abort();
      await running;
    },
  };
}

/** Requests that the informer's selector marks as its own. */
async function requestsOf(set: string, verb: string): Promise<number> {
  const requests = await plane.auditRequests({ resource: "configmaps", verb });
  return requests.filter((r) =>
    r.uri.includes(`set%3D${set}`) && r.stage === "ResponseStarted" ||
    r.uri.includes(`set%3D${set}`) && verb === "list"
  ).length;
}

Deno.test("Informer follows creation, change and deletion by one watch, without a list", async () => {
  await create("a", "follow");
  await create("other", "not-it");
  await using following = await follow(admin, { labelSelector: "set=follow" });
  const { informer, changes } = following;
  assert.deepEqual(informer.store.keys(), ["default/a"]);
  const b = await create("b", "follow");
  await admin.update(CONFIG_MAPS, { ...b, data: { value: "1" } });
  await remove("a");
  await eventually("four changes", () => changes.length === 4);
  assert.deepEqual(changes, ["added a", "added b", "updated b", "deleted a"]);
  const stored = informer.store.get("default/b");
  assert.equal(stored?.data?.["value"], "1");
  assert.equal(await requestsOf("follow", "list"), 0);
  assert.equal(await requestsOf("follow", "watch"), 1);
});

Deno.test("Informer keeps metadata alone when that is all it asks for", async () => {
  await create("meta", "meta");
  await using following = await follow(admin, {
    labelSelector: "set=meta",
    metadataOnly: true,
  });
  const { informer, changes } = following;
  await create("meta2", "meta");
  await eventually("the new one", () => changes.length === 2);
  for (const object of informer.store.list()) {
    assert.equal(object.data, undefined);
    assert.equal(object.metadata?.labels?.["set"], "meta");
  }
});

Deno.test("watch() brings bookmarks, and ends when the server ends it", async () => {
  const name = "bookmark";
  await create(name, "something");
  const { resourceVersion } = await admin.list(CONFIG_MAPS, { namespace });
  let isOver = false;
  let changing: Promise<void> | undefined;
  /** Changes that the selector leaves out move the version on. */
  const change = async () => {
    for (let n = 0; !isOver; n++) {
      const data = { value: `${n}` };
      const target = { name, namespace };
      await admin.patch(CONFIG_MAPS, target, { data }, { kind: "merge" });
      await sleep(50);
    }
  };
  const watch = () =>
    Array.fromAsync(admin.watch(CONFIG_MAPS, {
      namespace,
      labelSelector: "set=nothing",
      resourceVersion,
      timeoutSeconds: 6,
      onOpen: () => changing ??= awaitedLater(change()),
    }));
  try {
    let events = await watch();
    // The server sends a bookmark in a watch's last two seconds, and none if it stands still then.
    for (let tries = 1; events.length === 0 && tries < 5; tries++) {
      events = await watch();
    }
    const types = new Set(events.map(({ type }) => type));
    assert.deepEqual([...types], ["BOOKMARK"]);
    const last = events.at(-1)?.object.metadata?.resourceVersion ?? "";
    assert.ok(Number(last) > Number(resourceVersion), `${last} is not newer`);
  } finally {
    isOver = true;
  }
  await changing;
});

Deno.test({
  name: "Informer goes on from where it was after a crash of the API server",
  ...RESTARTS,
}, async () => {
  await create("crash", "crash");
  await using following = await follow(admin, { labelSelector: "set=crash" });
  const { informer, changes } = following;
  await plane.killApiServer();
  await plane.startApiServer();
  await create("crash2", "crash");
  await eventually("the new one", () => changes.includes("added crash2"));
  assert.deepEqual(changes, ["added crash", "added crash2"]);
  assert.equal(informer.store.size, 2);
});

Deno.test({
  name:
    "Informer lists again when its version is too old, and reports what went away unseen",
  ...RESTARTS,
}, async () => {
  await create("old1", "old");
  await create("old2", "old");
  const gate = await GatedTransport.open(plane.kubeconfig);
  using client = new KubeClient(gate);
  await using following = await follow(client, { labelSelector: "set=old" });
  const { informer, changes } = following;
  gate.isOpen = false;
  await plane.killApiServer();
  await plane.startApiServer();
  await remove("old1");
  const old2 = await admin.get(CONFIG_MAPS, { name: "old2", namespace });
  await admin.update(CONFIG_MAPS, { ...old2, data: { value: "1" } });
  await create("old3", "old");
  // Its watch cache begins with what is now.
  await plane.killApiServer();
  await plane.startApiServer();
  changes.length = 0;
  gate.isOpen = true;
  await eventually("the changes", () => changes.length === 3);
  assert.deepEqual(changes.sort(), [
    "added old3",
    "deleted old1",
    "updated old2",
  ]);
  assert.deepEqual(informer.store.keys().sort(), [
    "default/old2",
    "default/old3",
  ]);
  const all = (await plane.auditRequests({ resource: "configmaps" })).filter(
    ({ uri, stage }) =>
      uri.includes("set%3Dold") && uri.includes("sendInitialEvents=true") &&
      stage === "ResponseStarted",
  );
  assert.equal(all.length, 2);
});

Deno.test({
  name: "watch() says that a version is too old",
  ...RESTARTS,
}, async () => {
  await plane.killApiServer();
  await plane.startApiServer();
  await assert.rejects(
    Array.fromAsync(admin.watch(CONFIG_MAPS, { resourceVersion: "1" })),
    (err) => err instanceof KubeApiError && err.isGone,
  );
});

Deno.test("KubeClient gives up a connection that shows no life, with its watches", async () => {
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  await using following = await follow(client, { labelSelector: "set=dead" });
  const { changes } = following;
  const ports = await clientPorts();
  await using _silence = await silence(ports);
  const get = (timeoutMs: number) =>
    client.get(NAMESPACES, { name: namespace, timeoutMs });
  await assert.rejects(get(300), KubeUnreachableError);
  // The next one goes over a new connection, and so does the watch.
  assert.equal((await get(30_000)).metadata?.name, namespace);
  using other = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  await other.create(CONFIG_MAPS, {
    metadata: { name: "dead", namespace, labels: { set: "dead" } },
  });
  await eventually("the new one", () => changes.includes("added dead"));
});

Deno.test("Informer takes a watch without any sign of life for dead", async () => {
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  await using following = await follow(client, {
    labelSelector: "set=idle",
    idleTimeoutMs: 1_000,
  });
  const { changes } = following;
  await using _silence = await silence(await clientPorts());
  using other = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  await other.create(CONFIG_MAPS, {
    metadata: { name: "idle", namespace, labels: { set: "idle" } },
  });
  await eventually("the new one", () => changes.includes("added idle"));
});

/** Ports of this machine that are connected with the API server. */
async function clientPorts(): Promise<string[]> {
  const filter = ["state", "established", "dport", "=", ":6443"];
  const host = `dst = ${plane.subnet.address("ipv4", 1)}`.split(" ");
  const text = await run("ss", ["-Htn", ...filter, "and", ...host]);
  return text.split("\n").flatMap((line) => {
    const port = /:(\d+)\s+\S+:6443\s*$/.exec(line)?.[1];
    return port === undefined ? [] : [port];
  });
}

/** Lets nothing through any more from the API server to these ports, without a word to anybody. */
async function silence(ports: readonly string[]): Promise<AsyncDisposable> {
  assert.ok(ports.length > 0);
  const rule = (verb: string, port: string) =>
    run("ip", [
      ...["-n", plane.netns, "rule", verb, "ipproto", "tcp"],
      ...["dport", port, "priority", "10", "blackhole"],
    ]);
  for (const port of ports) await rule("add", port);
  return {
    async [Symbol.asyncDispose]() {
      for (const port of ports) await rule("delete", port);
    },
  };
}
