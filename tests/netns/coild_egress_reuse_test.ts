// Whose interface is it that has an address of a pod's status, when coild was
// started again: the address may have been another pod's before.
import assert from "node:assert/strict";
import { KeyedMutex, sleep } from "../../lib/async/mod.ts";
import type { StoreChange, V1Pod } from "../../lib/kube/mod.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import { AttachmentBook } from "../../roles/coild/calls/attachment_book.ts";
import type { Attachment } from "../../roles/coild/calls/attachment.ts";
import { EgressReconciler } from "../../roles/coild/egress/reconciler.ts";
import { CoildMetrics } from "../../roles/coild/observe/metrics.ts";
import type { PodSource } from "../../roles/coild/cluster/pod_source.ts";
import { podAddresses } from "../../roles/coild/cluster/pod_status.ts";
import { eventually } from "../lab/wait.ts";
import { type Parts, partsOn, requestFor } from "./coild_parts.ts";
import { type TestNode, testNode } from "./podnet_testing.ts";
import { netnsTest } from "./testing.ts";
import { nameText } from "../../lib/names/mod.ts";

const CLIENT = "old";
const OTHER = "new";

function pod(
  name: string,
  ip?: string,
  { isGoing = false }: { readonly isGoing?: boolean } = {},
): V1Pod {
  return {
    metadata: {
      namespace: "default",
      name,
      uid: `uid-${name}`,
      ...(isGoing && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      ...(name === CLIENT &&
        { annotations: { "egress.coil.cybozu.com/tenant": "nat" } }),
    },
    status: { podIPs: ip === undefined ? [] : [{ ip }] },
  };
}

/** The pods of this node, as a cache shows them. */
class Pods {
  readonly #pods = new Map<string, V1Pod>();
  #listener: (change: StoreChange<V1Pod>) => void = () => {};

  readonly source = {
    synced: () => Promise.resolve(),
    subscribe: (listener: (change: StoreChange<V1Pod>) => void) => {
      this.#listener = listener;
      return { [Symbol.dispose]() {} };
    },
    list: () => [...this.#pods.values()],
    get: (key: string) => this.#pods.get(key),
    withSameAddress: (pod: V1Pod) =>
      [...this.#pods.values()].filter((other) =>
        other.metadata?.uid !== pod.metadata?.uid &&
        podAddresses(other).some((address) =>
          podAddresses(pod).some((own) => own.equals(address))
        )
      ),
    clientsOf: () => [],
    annotationsOf: ({ metadata }: V1Pod) => ({ name: metadata?.name }),
    subscribeNamespaces: () => ({ [Symbol.dispose]() {} }),
  } as unknown as PodSource;

  put(object: V1Pod): void {
    const key = nameText({
      namespace: "default",
      name: "",
      ...object.metadata,
    });
    this.#pods.set(key, object);
    this.#listener({ type: "updated", object, key });
  }

  remove(name: string): void {
    const key = `default/${name}`;
    const object = this.#pods.get(key) ?? {};
    this.#pods.delete(key);
    this.#listener({ type: "deleted", object, key });
  }
}

/** Follows the pods as an egress reconciler does that has just started; returns what it did, as `<pod> <container ID>`. */
function follow(parts: Parts, pods: Pods): AsyncDisposable & {
  readonly updates: string[];
} {
  const updates: string[] = [];
  const clean = new Set<string>();
  const stop = new AbortController();
  const reconciler = new EgressReconciler({
    pods: pods.source,
    source: {
      synced: () => Promise.resolve(),
      subscribe: () => ({ [Symbol.dispose]() {} }),
    } as never,
    setup: {
      egressesAt: () => new Set(),
      isNone: ({ key }: Attachment) => clean.has(key.containerId),
      update: ({ key }: Attachment, { name }: { name?: string }) => {
        updates.push(`${name} ${key.containerId}`);
        if (name !== CLIENT) clean.add(key.containerId);
        return Promise.resolve("done");
      },
      forget() {},
      refused() {},
    } as never,
    attachments: parts.attachments,
    book: new AttachmentBook(),
    events: { record() {} },
    locks: new KeyedMutex(),
    metrics: new CoildMetrics(createRegistry()),
  });
  const run = reconciler.run(stop.signal).catch((error) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    updates,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await run;
    },
  };
}

/** Attaches the pod that has the address now. */
async function attachOther(node: TestNode, parts: Parts): Promise<string> {
  await node.net.init();
  const { path } = await node.pod();
  const name = { namespace: "default", name: OTHER };
  await parts.add(requestFor(path, "cid-new", name));
  return `${parts.ipam.list()[0]?.addresses.ipv4}`;
}

/** Has the link name no pod, as one that upstream made. */
async function unmark(node: TestNode): Promise<void> {
  const [link] = await node.net.list();
  const mac = "02:11:22:33:44:55";
  await node.host.ip("link", "set", link?.hostName ?? "", "address", mac);
}

function looked(): Promise<void> {
  return sleep(300);
}

netnsTest(
  "after a restart a pod's interface is not taken for that of a pod whose status still has its address",
  async () => {
    await using node = await testNode();
    await using parts = await partsOn(node.net);
    const ip = await attachOther(node, parts);
    const pods = new Pods();
    // Its sandbox was recreated, or it is about to go; the other one has no status yet.
    pods.put(pod(CLIENT, ip));
    pods.put(pod(OTHER));
    await using egress = follow(parts, pods);
    await looked();
    assert.deepEqual(egress.updates, []);
    pods.put(pod(OTHER, ip));
    pods.remove(CLIENT);
    await eventually(
      "a look at the pod that has the address",
      () => egress.updates.length > 0,
    );
    assert.deepEqual(egress.updates, [`${OTHER} cid-new`]);
  },
);

netnsTest(
  "after a restart an interface that names no pod is not that of a pod which is about to go",
  async () => {
    await using node = await testNode();
    await using parts = await partsOn(node.net);
    const ip = await attachOther(node, parts);
    await unmark(node);
    const pods = new Pods();
    pods.put(pod(CLIENT, ip, { isGoing: true }));
    pods.put(pod(OTHER));
    await using egress = follow(parts, pods);
    await looked();
    assert.deepEqual(egress.updates, []);
  },
);

netnsTest(
  "an interface that was taken for another pod's is mended when its pod has a status",
  async () => {
    await using node = await testNode();
    await using parts = await partsOn(node.net);
    const ip = await attachOther(node, parts);
    await unmark(node);
    const pods = new Pods();
    pods.put(pod(CLIENT, ip));
    pods.put(pod(OTHER));
    await using egress = follow(parts, pods);
    await eventually("the mix-up", () => egress.updates.length > 0);
    assert.deepEqual(egress.updates, [`${CLIENT} cid-new`]);
    // Its status is that of its new sandbox now.
    pods.put(pod(CLIENT, "10.9.9.9"));
    pods.put(pod(OTHER, ip));
    await eventually(
      "the pod to be mended",
      () => egress.updates.includes(`${OTHER} cid-new`),
    );
    pods.put(pod(CLIENT, "10.9.9.9"));
    await looked();
    assert.equal(egress.updates.at(-1), `${OTHER} cid-new`);
  },
);
