import assert from "node:assert/strict";
import type {
  Egress,
  EgressClient,
  EgressClientSlice,
} from "../../lib/api/mod.ts";
import { settle, untilPasses, untilStopped } from "../../lib/async/testing.ts";
import {
  Informer,
  KubeClient,
  type StoreChange,
  type V1Pod,
} from "../../lib/kube/mod.ts";
import { FakeTransport } from "../../lib/kube/testing.ts";
import { EGRESSES, GATEWAY_LABELS } from "../../lib/api/mod.ts";
import { clientPods } from "./clients/client_pods.ts";
import {
  ClientSlices,
  type ClientSlicesOptions,
  sliceInformer,
} from "./clients/client_slices.ts";
import { connectClients } from "./clients_part.ts";
import { planMetadata } from "./base/metadata.ts";
import { EgressLab, egressOf } from "./testing.ts";

const SLICE = "egressclientslices/internet/nat-0";

function podOf(
  name: string,
  { egress = "nat", ip, namespace = "team", labels = {} }: {
    readonly egress?: string | undefined;
    readonly ip?: string;
    readonly namespace?: string;
    readonly labels?: Record<string, string>;
  } = {},
): V1Pod {
  return {
    metadata: {
      namespace,
      name,
      labels,
      uid: `uid-of-${name}`,
      annotations: { "egress.coil.cybozu.com/internet": egress },
    },
    spec: { nodeName: "n1", containers: [] },
    status: ip === undefined ? {} : { podIPs: [{ ip }] },
  };
}

function clientsOf({ api }: EgressLab, key = SLICE): string[] | undefined {
  return api.get<EgressClientSlice>(key)?.clients?.map(
    ({ name, addresses }) => [name, ...addresses ?? []].join(" "),
  );
}

Deno.test("the pods of an Egress are in its slice, as they come, change and go", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  api.put("pods", podOf("a", { ip: "10.64.0.1" }));
  api.put("pods", podOf("other", { egress: "dmz" }));
  lab.start();
  api.put("egresses", egressOf());
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["a 10.64.0.1"]));
  api.put("pods", podOf("b"));
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["a 10.64.0.1", "b"]));
  api.put("pods", podOf("b", { ip: "10.64.0.2" }));
  await lab.until(() =>
    assert.deepEqual(clientsOf(lab), ["a 10.64.0.1", "b 10.64.0.2"])
  );
  api.put("pods", podOf("a", { egress: "dmz", ip: "10.64.0.1" }));
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["b 10.64.0.2"]));
  api.remove("pods/team/b");
  await lab.until(() => assert.deepEqual(clientsOf(lab) ?? [], []));
});

const DEFAULT = { "egress.coil.cybozu.com/internet": "nat" };

/** Like podOf(), without an annotation. */
function plainPod(name: string, options: Parameters<typeof podOf>[1] = {}) {
  const pod = podOf(name, options);
  return { ...pod, metadata: { ...pod.metadata, annotations: {} } };
}

Deno.test("the pods of a namespace with a default Egress are in its slice, as the annotation comes and goes", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  const putNamespace = (name: string, annotations = {}) =>
    api.put("namespaces", { metadata: { name, annotations } });
  putNamespace("first", DEFAULT);
  putNamespace("team");
  api.put("pods", plainPod("early", { namespace: "first" }));
  api.put("pods", plainPod("a"));
  api.put("pods", podOf("out", { egress: "" }));
  api.put("pods", plainPod("gateway", { labels: GATEWAY_LABELS }));
  lab.start();
  api.put("egresses", egressOf());
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["early"]));
  putNamespace("team", DEFAULT);
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["early", "a"]));
  api.put("pods", plainPod("b"));
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["early", "a", "b"]));
  putNamespace("team");
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["early"]));
  putNamespace("team", { "egress.coil.cybozu.com/internet": "dmz" });
  api.put("pods", podOf("own"));
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["early", "own"]));
});

Deno.test("a controller that starts knows which Egresses namespaces have as default before it writes clients", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  const { request } = api;
  const released = Promise.withResolvers<void>();
  api.request = async (asked) => {
    if (asked.path.includes("/namespaces?")) await released.promise;
    return await request.call(api, asked);
  };
  api.put("namespaces", { metadata: { name: "team", annotations: DEFAULT } });
  api.put("pods", plainPod("a"));
  api.put("egresses", egressOf());
  lab.start();
  await lab.quiet();
  assert.equal(clientsOf(lab), undefined);
  released.resolve();
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["a"]));
});

Deno.test("the status of an Egress follows the number of its clients", async () => {
  await using lab = new EgressLab({ statusIntervalMs: 1 }).start();
  const { api } = lab;
  const clients = () =>
    api.get<Egress>("egresses/internet/nat")?.status?.clients;
  api.put("egresses", egressOf());
  await lab.until(() => assert.equal(clients(), 0));
  await lab.quiet();
  api.put("pods", podOf("a"));
  await lab.until(() => assert.equal(clients(), 1));
});

Deno.test("an Egress' clients are written before its Deployment, whose gateways need them", async () => {
  await using lab = new EgressLab();
  const { api } = lab;
  api.put("pods", podOf("a"));
  api.put("egresses", egressOf());
  lab.start();
  await lab.until(() => assert.ok(api.get("deployments/internet/nat")));
  assert.deepEqual(clientsOf(lab), ["a"]);
  const at = (write: string) => api.writes.indexOf(write);
  const slice = at("POST egressclientslices/internet/nat-0");
  assert.ok(slice >= 0, api.writes.join());
  assert.ok(slice < at("PATCH deployments/internet/nat"), api.writes.join());
});

Deno.test("a slice that others change, damage or remove is put right, and one of another name goes", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  api.put("pods", podOf("a"));
  api.put("egresses", egressOf());
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["a"]));
  const slice = api.get<EgressClientSlice>(SLICE);
  assert.ok(slice);
  const { metadata } = slice;
  for (
    const damage of [
      { ...slice, clients: [] },
      { ...slice, metadata: { ...metadata, labels: {} } },
      { ...slice, metadata: { ...metadata, ownerReferences: [] } },
    ]
  ) {
    api.put("egressclientslices", damage);
    await lab.until(() => {
      const { metadata: is, clients } = api.get<EgressClientSlice>(SLICE) ?? {};
      assert.deepEqual(clients?.length, 1);
      assert.deepEqual(is?.labels, metadata.labels);
      assert.deepEqual(is?.ownerReferences, metadata.ownerReferences);
    });
  }
  api.remove(SLICE);
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["a"]));
  const stray = { ...metadata, name: "stray" };
  api.put("egressclientslices", { ...slice, metadata: stray });
  await lab.until(() =>
    assert.equal(api.get("egressclientslices/internet/stray"), undefined)
  );
  assert.deepEqual(clientsOf(lab), ["a"]);
});

Deno.test("a slice that another's finalizer keeps is not deleted again and again", async () => {
  await using lab = new EgressLab().start();
  const { api } = lab;
  api.put("egresses", egressOf());
  await lab.until(() => assert.deepEqual(clientsOf(lab), []));
  const slice = api.get<EgressClientSlice>(SLICE);
  const stray = { ...slice?.metadata, name: "stray", finalizers: ["another"] };
  api.put("egressclientslices", { ...slice, metadata: stray });
  const deletes = () =>
    api.writes.filter((w) => w === "DELETE egressclientslices/internet/stray");
  await lab.until(() => assert.equal(deletes().length, 1));
  api.put("pods", podOf("a"));
  await lab.until(() => assert.deepEqual(clientsOf(lab), ["a"]));
  await lab.quiet();
  assert.equal(deletes().length, 1);
});

/** ClientSlices of an Egress whose only slice has these clients, and annotations; its watch of pods has reached version 4. */
function slicesWith(
  { clients, annotations }: {
    readonly clients?: readonly EgressClient[];
    readonly annotations?: Readonly<Record<string, string>>;
  } = {},
) {
  const transport = new FakeTransport(({ body }) => ({
    body: JSON.parse(body ?? "{}"),
  }));
  const client = new KubeClient(transport);
  const egresses = new Informer(client, EGRESSES);
  const egress = egressOf();
  egresses.store.set("internet/nat", egress);
  const written = sliceInformer(client);
  const metadata = {
    ...planMetadata(egress),
    name: "nat-0",
    namespace: "internet",
    resourceVersion: "9",
  };
  written.store.set("internet/nat-0", {
    apiVersion: "coil.cybozu.com/v2",
    kind: "EgressClientSlice",
    metadata: { ...metadata, ...(annotations && { annotations }) },
    ...(clients && { clients }),
  });
  let look = () => {};
  const pods = {
    store: clientPods(client).store,
    version: "4",
    subscribe: (listener: (change: StoreChange<V1Pod>) => void) => {
      look = listener as () => void;
      return { [Symbol.dispose]: () => {} };
    },
  };
  const slices = new ClientSlices({ client, egresses, pods, slices: written });
  const stop = new AbortController();
  return {
    /** Reconciles, and says what was written when it can do no more for now. */
    writes: async () => {
      const { signal } = stop;
      void untilStopped(slices.reconcile("internet/nat", signal), signal);
      await settle();
      return transport.requests.map(({ method }) => method);
    },
    /** Another pod comes by, of this version. */
    reach: async (version: string) => {
      pods.version = version;
      look();
      await settle();
      return transport.requests.map(({ method }) => method);
    },
    slices,
    [Symbol.dispose]: () => stop.abort(),
  };
}

Deno.test("connectClients() goes through no pod that is there, of which there may be 150,000, and has each Egress' clients written", async () => {
  const client = new KubeClient(new FakeTransport(() => ({})));
  const egresses = new Informer(client, EGRESSES);
  const slices = sliceInformer(client);
  const informer = clientPods(client, { everyAddress: true });
  egresses.store.set("internet/nat", egressOf());
  informer.store.set("team/a", podOf("a"));
  informer.store.set("team/other", { addresses: "10.64.0.1" });
  const seen: string[] = [];
  const clients: ClientSlicesOptions["pods"] = {
    store: informer.store,
    version: "4",
    subscribe: (listener, options) =>
      informer.subscribe((change) => {
        seen.push(change.key);
        listener(change);
      }, options),
  };
  const cluster = { egresses, slices, clients };
  using part = connectClients({ client, cluster });
  assert.deepEqual(seen, []);
  await untilPasses(() => assert.equal(part.controller.pending, 1));
});

Deno.test("ClientSlices.reconcile() waits for nothing when nothing is to be written", async () => {
  using f = slicesWith();
  const { signal } = new AbortController();
  let isDone = false;
  const reconciling = f.slices.reconcile("internet/nat", signal)
    .then(() => isDone = true);
  await settle();
  assert.ok(isDone, "It waits for a change that does not come");
  await reconciling;
});

const CLIENT = { namespace: "team", name: "a", uid: "u", nodeName: "n1" };
const VERSION = "coil.cybozu.com/pods-version";

Deno.test("ClientSlices.reconcile() takes no client out that another leader knows before it has seen as many pods", async () => {
  using f = slicesWith({ clients: [CLIENT], annotations: { [VERSION]: "6" } });
  assert.deepEqual(await f.writes(), []);
  assert.deepEqual(await f.reach("5"), []);
  assert.deepEqual(await f.reach("6"), ["PATCH"]);
});

Deno.test("ClientSlices.reconcile() does not believe a version of pods that is newer than the slice", async () => {
  using f = slicesWith({ clients: [CLIENT], annotations: { [VERSION]: "10" } });
  assert.deepEqual(await f.writes(), ["PATCH"]);
});

Deno.test("ClientSlices.reconcile() says what it waits for in vain", async () => {
  using f = slicesWith({ clients: [CLIENT], annotations: { [VERSION]: "6" } });
  await assert.rejects(
    f.slices.reconcile("internet/nat", new AbortController().signal),
    /^Error: Cannot write the clients of Egress "internet\/nat": .* newer than version 4/,
  );
});
