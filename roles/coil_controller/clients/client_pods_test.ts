import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import {
  type Informer,
  KubeClient,
  Store,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import type { CachedPod } from "../base/cached_pod.ts";
import {
  clientPods,
  type ClientPodsOptions,
  clientsOf,
  egressesOf,
  transformClientPod,
} from "./client_pods.ts";

const EGRESS = "nat/internet";

function pod(
  annotations: Record<string, string>,
  more: { readonly hostNetwork?: boolean; readonly phase?: string } = {},
): V1Pod {
  const { hostNetwork, phase = "Running" } = more;
  return {
    metadata: {
      name: "client",
      namespace: "team",
      uid: "u1",
      resourceVersion: "7",
      annotations,
      labels: { app: "x" },
    },
    spec: {
      nodeName: "node1",
      containers: [{ name: "c" }],
      ...(hostNetwork !== undefined && { hostNetwork }),
    },
    status: {
      phase,
      podIP: "10.1.1.2",
      podIPs: [{ ip: "10.1.1.2" }, { ip: "fd01::2" }],
      conditions: [],
    },
  };
}

const KEY = "egress.coil.cybozu.com/nat";

for (
  const [what, annotations, more, expected] of [
    ["names it", { [KEY]: "internet" }, {}, true],
    ["names it among others", { [KEY]: "dmz,internet" }, {}, true],
    ["has blanks and gaps", { [KEY]: " , dmz , internet,, " }, {}, true],
    ["waits for its start", { [KEY]: "internet" }, { phase: "Pending" }, true],
    ["names another", { [KEY]: "dmz" }, {}, false],
    ["names a longer name", { [KEY]: "internet2" }, {}, false],
    ["names nothing", { [KEY]: "" }, {}, false],
    ["means another namespace", { [`${KEY}2`]: "internet" }, {}, false],
    ["has no annotation", {}, {}, false],
    ["is on the host's network (CT-32)", { [KEY]: "internet" }, {
      hostNetwork: true,
    }, false],
    [
      "has succeeded",
      { [KEY]: "internet" },
      { phase: "Succeeded" },
      false,
    ],
    ["has failed", { [KEY]: "internet" }, { phase: "Failed" }, false],
  ] as const
) {
  Deno.test(`egressesOf() ${expected ? "has" : "lacks"} the Egress of a pod that ${what}`, () => {
    const all = egressesOf(pod(annotations, more));
    assert.equal(all.includes(EGRESS), expected);
  });
}

Deno.test("egressesOf() has none for a pod on no node, and for one whose annotations coild refuses", () => {
  const { spec: _none, ...unscheduled } = pod({ [KEY]: "internet" });
  assert.deepEqual(egressesOf(unscheduled), []);
  assert.deepEqual(egressesOf(pod({ [KEY]: "internet,No Name" })), []);
  const many = Array.from({ length: 65 }, (_, n) => `egress-${n}`);
  assert.deepEqual(
    egressesOf(pod({ [KEY]: ["internet", ...many].join() })),
    [],
  );
});

Deno.test("transformClientPod() keeps exactly what the other functions and the store need", () => {
  const whole = pod({ [KEY]: "internet", "big": "x".repeat(1_000) });
  const transformed = transformClientPod(whole);
  assert.deepEqual(transformed, {
    metadata: {
      name: "client",
      namespace: "team",
      uid: "u1",
      resourceVersion: "7",
      annotations: { [KEY]: "internet" },
    },
    spec: { nodeName: "node1", containers: [] },
    status: { podIPs: [{ ip: "10.1.1.2" }, { ip: "fd01::2" }] },
  });
  assert.deepEqual(egressesOf(transformed), egressesOf(whole));
});

Deno.test("clientsOf() has an Egress' clients by UID, without what is not an address", () => {
  const store = new Store<V1Pod>({ egress: egressesOf });
  const put = (uid: string, annotation: string, ips: readonly string[]) => {
    const { metadata, spec } = pod({ [KEY]: annotation });
    store.set(uid, {
      metadata: { ...metadata, uid },
      ...(spec !== undefined && { spec }),
      status: { podIPs: ips.map((ip) => ({ ip })) },
    });
  };
  put("u1", "internet", ["10.1.1.2", "", "fd01:0::2"]);
  put("u2", "dmz,internet", []);
  put("u3", "dmz", ["10.1.1.3"]);
  const rest = { namespace: "team", name: "client", nodeName: "node1" };
  assert.deepEqual([...clientsOf({ store }, EGRESS)], [
    ["u1", { ...rest, uid: "u1", addresses: ["10.1.1.2", "fd01::2"] }],
    ["u2", { ...rest, uid: "u2" }],
  ]);
});

/** Follows pods "a", "b", which is a client, "c" and "d", which is on no node, and has what is kept of them, by key; `during` has time until then. */
async function follow(
  options: ClientPodsOptions,
  during?: (api: MemoryApi, informer: Informer<CachedPod>) => Promise<void>,
): Promise<Record<string, unknown>> {
  const api = new MemoryApi();
  for (const name of ["a", "b", "c", "d"]) {
    const { metadata, spec, status } = pod(
      name === "b" ? { [KEY]: "internet" } : {},
    );
    api.put("pods", {
      metadata: { ...metadata, name },
      ...(name !== "d" && spec !== undefined && { spec }),
      ...(name !== "c" && status !== undefined && { status }),
    });
  }
  const informer = clientPods(new KubeClient(api), options);
  await using group = new TaskGroup();
  group.run("pods", (signal) => informer.run(signal));
  await untilPasses(() => assert.ok(informer.hasSynced));
  await during?.(api, informer);
  const { store } = informer;
  return Object.fromEntries(store.keys().map((key) => [key, store.get(key)]));
}

Deno.test("clientPods() leaves out pods that are not clients", async () => {
  let read = 0;
  const pods = await follow({ onRead: () => void read++ });
  assert.deepEqual(Object.keys(pods), ["team/b"]);
  assert.equal(read, 3, "the API server leaves out the one on no node");
});

Deno.test("clientPods() keeps the addresses of other pods, and nothing else of them", async () => {
  const { "team/b": client, ...others } = await follow({ everyAddress: true });
  assert.deepEqual(others, { "team/a": { addresses: "10.1.1.2 fd01::2" } });
  assert.deepEqual(egressesOf(client as V1Pod), [EGRESS]);
});

Deno.test("clientPods() reports other pods when their addresses change, and no other change of them", async () => {
  const changes: string[] = [];
  const write = (api: MemoryApi, version: string, ip: string) => {
    const { metadata, ...rest } = pod({ version });
    const status = { phase: "Running", podIPs: [{ ip }] };
    api.put("pods", { ...rest, metadata: { ...metadata, name: "a" }, status });
  };
  const pods = await follow({ everyAddress: true }, async (api, informer) => {
    write(api, "1", "10.1.1.9");
    await untilPasses(() =>
      assert.equal(informer.store.get("team/a")?.addresses, "10.1.1.9")
    );
    informer.subscribe(({ type, object }) =>
      changes.push(`${type} ${object.addresses}`)
    );
    write(api, "2", "10.1.1.9");
    write(api, "3", "10.1.1.10");
    await untilPasses(() =>
      assert.equal(informer.store.get("team/a")?.addresses, "10.1.1.10")
    );
  });
  assert.deepEqual(changes, ["updated 10.1.1.10"]);
  assert.deepEqual(pods["team/a"], { addresses: "10.1.1.10" });
});
