import assert from "node:assert/strict";
import { KeyedMutex, TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses, untilQuiet } from "../../../lib/async/testing.ts";
import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { EventInfo, StoreChange, V1Pod } from "../../../lib/kube/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { InvalidAnnotationError } from "../base/errors.ts";
import type { Attachment } from "../calls/attachment.ts";
import { AttachmentBook } from "../calls/attachment_book.ts";
import {
  EgressReconciler,
  type EgressReconcilerOptions,
} from "./reconciler.ts";
import type { UpdateOutcome } from "./updates.ts";

configureLogging({ write: () => {} });

const CLIENT = { "egress.coil.cybozu.com/nat": "internet" };

/** A pod whose address ends in its number. */
function podOf(
  n: number,
  {
    annotations = CLIENT,
    labels = {},
    uid = `u${n}`,
    ip = `10.64.0.${n}`,
    host = false,
  }: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly uid?: string;
    readonly ip?: string | undefined;
    readonly host?: boolean;
  } = {},
): V1Pod {
  return {
    metadata: { namespace: "team", name: `p${n}`, uid, annotations, labels },
    spec: { containers: [], ...(host && { hostNetwork: true }) },
    status: { podIPs: ip === "" ? [] : [{ ip }] },
  };
}

function numberOf({ metadata }: V1Pod): number {
  return Number(metadata?.name?.slice(1));
}

function attachmentOf(n: number, uid = `u${n}`): Attachment {
  return {
    key: { containerId: `c${n}`, ifname: "eth0" },
    pod: { namespace: "team", name: `p${n}` },
    uid,
    addresses: { ipv4: Address.parse(`10.64.0.${n}`) },
    openNetns: () => Promise.resolve(undefined),
  };
}

/** A reconciler beside a cache of pods and a setup that note what they are asked. */
class Site implements AsyncDisposable {
  readonly book = new AttachmentBook();
  readonly locks = new KeyedMutex();
  readonly pods = new Map<string, V1Pod>();
  /** Interfaces that are found, by the pod's number. */
  readonly interfaces = new Set<number>();
  /** Containers that are no clients. */
  readonly none = new Set<string>();
  /** Names of the pods of each search. */
  readonly searches: string[] = [];
  /** Containers of updates. */
  readonly updates: string[] = [];
  /** Of each "REASON CONTAINER" that setup was told of. */
  readonly refusals: string[] = [];
  readonly forgotten: string[] = [];
  /** Address of a gateway. */
  gateway = "";
  readonly events: string[] = [];
  readonly counted: string[] = [];
  /** What the next updates come to. */
  outcome: () => UpdateOutcome = () => "done";
  isSynced = Promise.resolve();
  readonly reconciler: EgressReconciler;
  readonly #group = new TaskGroup();
  #onPod: (change: StoreChange<V1Pod>) => void = () => {};
  #onEgress: (egress: string) => void = () => {};

  constructor(...numbers: readonly number[]) {
    for (const n of numbers) this.pods.set(`team/p${n}`, podOf(n));
    const subscription = { [Symbol.dispose]() {} };
    const addressOf = ({ status }: V1Pod) => status?.podIPs?.[0]?.ip;
    const options = {
      pods: {
        synced: () => this.isSynced,
        list: () => [...this.pods.values()],
        get: (key: string) => this.pods.get(key),
        clientsOf: () => [...this.pods.values()],
        annotationsOf: ({ metadata }: V1Pod) => metadata?.annotations ?? {},
        subscribeNamespaces: () => subscription,
        withSameAddress: (pod: V1Pod) =>
          [...this.pods.values()].filter((other) =>
            other.metadata?.name !== pod.metadata?.name &&
            addressOf(pod) !== undefined && addressOf(other) === addressOf(pod)
          ),
        subscribe: (listener: (change: StoreChange<V1Pod>) => void) => {
          this.#onPod = listener;
          return subscription;
        },
      },
      source: {
        subscribe: (listener: (egress: string) => void) => {
          this.#onEgress = listener;
          return subscription;
        },
      },
      setup: {
        egressesAt: (addresses: readonly Address[]) =>
          addresses.some((each) => `${each}` === this.gateway)
            ? ["internet/nat"]
            : [],
        isNone: ({ key }: Attachment) => this.none.has(key.containerId),
        update: async ({ key }: Attachment) => {
          this.updates.push(key.containerId);
          return this.outcome();
        },
        refused: ({ containerId }: AttachmentKey, reason?: string) => {
          if (reason !== undefined) {
            this.refusals.push(`${reason} ${containerId}`);
          }
        },
        forget: ({ containerId }: AttachmentKey) =>
          void this.forgotten.push(containerId),
      },
      attachments: {
        find: async (pods: readonly V1Pod[]) => {
          const numbers = pods.map(numberOf);
          this.searches.push(numbers.map((n) => `p${n}`).sort().join());
          return new Map(
            pods.filter((pod) => this.interfaces.has(numberOf(pod)))
              .map((pod) => [
                `team/p${numberOf(pod)}`,
                attachmentOf(numberOf(pod), pod.metadata?.uid),
              ]),
          );
        },
      },
      book: this.book,
      events: {
        record: ({ name }: { name: string }, { type, reason }: EventInfo) =>
          void this.events.push(`${type} ${reason} of ${name}`),
      },
      locks: this.locks,
      metrics: {
        egressUpdated: (result: string) => void this.counted.push(result),
      },
    } as unknown as EgressReconcilerOptions; // all that it uses
    this.reconciler = new EgressReconciler(options);
  }

  start(): this {
    this.#group.run("egress", (signal) => this.reconciler.run(signal));
    return this;
  }

  /** The cache gets a pod as it is now. */
  put(n: number, changes: Parameters<typeof podOf>[1] = {}): void {
    const key = `team/p${n}`;
    const object = podOf(n, changes);
    const type = this.pods.has(key) ? "updated" : "added";
    this.pods.set(key, object);
    this.#onPod({ type, key, object } as StoreChange<V1Pod>);
  }

  remove(n: number): void {
    const key = `team/p${n}`;
    const object = this.pods.get(key) ?? podOf(n);
    this.pods.delete(key);
    this.#onPod({ type: "deleted", key, object } as StoreChange<V1Pod>);
  }

  egressChanged(): void {
    this.#onEgress("nat/internet");
  }

  /** Waits until nothing happens; what was updated since the last time. */
  async updated(): Promise<string[]> {
    await untilQuiet(() => this.counted.length + this.searches.length, 40);
    return this.updates.splice(0).toSorted();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#group[Symbol.asyncDispose]();
  }
}

Deno.test("EgressReconciler looks at all pods at its start, and only once at each that is not a client", async () => {
  await using site = new Site(1, 2, 3, 4);
  const { book, interfaces, pods } = site;
  const synced = Promise.withResolvers<void>();
  site.isSynced = synced.promise;
  pods.set("team/p5", podOf(5, { host: true }));
  pods.set("team/p6", podOf(6, { annotations: {} }));
  pods.set("team/p7", podOf(7, { annotations: {} }));
  pods.set("team/p8", podOf(8, { ip: "10.64.0.4" }));
  book.add(attachmentOf(1));
  // Its container is known to be another pod's.
  book.add({ ...attachmentOf(9), key: attachmentOf(3).key });
  for (const n of [2, 3, 7]) interfaces.add(n);
  site.start();
  assert.deepEqual(await site.updated(), []);
  assert.equal(site.searches.length, 0);
  synced.resolve();
  assert.deepEqual(await site.updated(), ["c1", "c2", "c7"]);
  const [first, ...later] = site.searches;
  assert.equal(first, "p2,p3,p6,p7");
  // A client is looked for again: 3, which is another's, and neither of two with one address.
  assert.deepEqual(new Set(later), new Set(["p3"]));
  site.put(6, { annotations: { other: "annotation" } });
  assert.deepEqual(await site.updated(), []);
  assert.ok(!site.searches.slice(1).includes("p6"), "not again");
  interfaces.add(6);
  site.put(6, { annotations: {}, uid: "u6b" });
  assert.deepEqual(await site.updated(), ["c6"], "another pod of the name");
});

Deno.test("EgressReconciler updates pods that change, and leaves alone those that are not clients", async () => {
  await using site = new Site(1, 2).start();
  const { book, none } = site;
  for (const n of [1, 2]) book.add(attachmentOf(n));
  assert.deepEqual(await site.updated(), ["c1", "c2"]);
  site.egressChanged();
  assert.deepEqual(await site.updated(), ["c1", "c2"]);
  none.add("c1");
  site.put(1, { annotations: {} });
  assert.deepEqual(await site.updated(), []);
  site.put(1);
  assert.deepEqual(await site.updated(), ["c1"], "none that is to be one");
  none.delete("c1");
  site.put(1, { annotations: {} });
  assert.deepEqual(await site.updated(), ["c1"], "one that is to be none");
  assert.deepEqual(site.searches.slice(1), []);
  assert.ok(site.counted.every((result) => result === "ok"));
});

Deno.test("EgressReconciler updates clients of a gateway when a pod comes with its address", async () => {
  await using site = new Site(1).start();
  site.book.add(attachmentOf(1));
  await site.updated();
  site.put(2, { annotations: {}, ip: "10.64.0.9" });
  assert.deepEqual(await site.updated(), []);
  site.gateway = "10.64.0.9";
  site.put(2, { annotations: {}, ip: "10.64.0.9" });
  assert.deepEqual(await site.updated(), ["c1"]);
});

Deno.test("EgressReconciler leaves a new pod to its ADD", async () => {
  await using site = new Site().start();
  await site.updated();
  site.interfaces.add(1);
  site.put(1, { ip: "" });
  assert.deepEqual(await site.updated(), []);
  site.put(1);
  assert.deepEqual(await site.updated(), ["c1"]);
  site.remove(1);
  assert.deepEqual(site.forgotten, ["c1"]);
  assert.equal(site.book.at(attachmentOf(1).key), undefined);
  site.put(1, { host: true });
  assert.deepEqual(await site.updated(), []);
});

Deno.test("EgressReconciler tells once what is wrong with a pod, and again when it is wrong again", async () => {
  await using site = new Site(1);
  site.book.add(attachmentOf(1));
  const invalid = () => {
    throw new InvalidAnnotationError("no such name");
  };
  site.outcome = invalid;
  site.start();
  await site.updated();
  assert.deepEqual(site.updates.splice(0), []);
  site.put(1);
  assert.deepEqual(await site.updated(), ["c1"], "not again by itself");
  assert.deepEqual(site.events, ["Warning EgressInvalid of p1"]);
  assert.deepEqual(new Set(site.refusals), new Set(["EgressInvalid c1"]));
  site.outcome = () => "done";
  site.put(1);
  await site.updated();
  site.outcome = invalid;
  site.put(1);
  await site.updated();
  assert.equal(site.events.length, 2);
});

Deno.test("EgressReconciler refuses a gateway once, and again when it is annotated again", async () => {
  await using site = new Site(1);
  site.book.add(attachmentOf(1));
  site.start();
  await site.updated();
  const labels = {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": "egress",
  };
  for (const times of [1, 2]) {
    for (let looks = 0; looks < 2; looks++) {
      site.put(1, { labels });
      assert.deepEqual(await site.updated(), []);
    }
    const told = Array(times).fill("Warning EgressRefused of p1");
    assert.deepEqual(site.events, told);
    site.put(1, { labels, annotations: {} });
    await site.updated();
  }
  site.put(1, { labels });
  await site.updated();
  assert.equal(site.events.length, 3);
  site.remove(1);
  site.put(1, { labels });
  await site.updated();
  assert.equal(site.events.length, 4, "a later pod of the name");
});

Deno.test("EgressReconciler changes neither of pods that have one address, and says so once", async () => {
  await using site = new Site(1);
  site.book.add(attachmentOf(1));
  site.pods.set("team/p2", podOf(2, { ip: "10.64.0.1" }));
  site.start();
  assert.deepEqual(await site.updated(), []);
  site.put(1);
  assert.deepEqual(await site.updated(), []);
  assert.deepEqual(site.events.toSorted(), [
    "Warning AddressConflict of p1",
    "Warning AddressConflict of p2",
  ]);
  site.remove(2);
  assert.deepEqual(await site.updated(), ["c1"]);
});

Deno.test("EgressReconciler tries again what was not found or has to wait, waits for the lock, and forgets what went in the meantime", async () => {
  await using site = new Site(1);
  site.book.add(attachmentOf(1));
  const outcomes: UpdateOutcome[] = ["later", "not found"];
  site.outcome = () => outcomes.pop() ?? "done";
  site.pods.set("team/p2", podOf(2));
  site.start();
  await untilPasses(() => assert.equal(site.updates.length, 3));
  // Its interface comes without a word.
  site.interfaces.add(2);
  await untilPasses(() => assert.ok(site.updates.includes("c2")));
  await site.updated();
  {
    using _lock = await site.locks.lock("c1:eth0");
    site.put(1);
    assert.deepEqual(await site.updated(), []);
  }
  assert.deepEqual(await site.updated(), ["c1"]);
  site.outcome = () => {
    site.book.forget(attachmentOf(1).key);
    return "done";
  };
  site.put(1);
  await site.updated();
  assert.deepEqual(site.forgotten, ["c1"]);
});

Deno.test("EgressReconciler leaves a pod alone that was replaced while it waited for the lock", async () => {
  await using site = new Site(1);
  site.book.add(attachmentOf(1));
  site.start();
  await site.updated();
  {
    using _lock = await site.locks.lock("c1:eth0");
    site.put(1);
    await site.updated();
    // The cache has a later pod of the name, whose ADD has not come.
    site.pods.set("team/p1", podOf(1, { uid: "u1b", ip: "" }));
  }
  assert.deepEqual(await site.updated(), []);
});

Deno.test("EgressReconciler's own lock is none that looks pass by", async () => {
  await using site = new Site(1);
  site.book.add(attachmentOf(1));
  const seen: boolean[] = [];
  site.outcome = () => {
    seen.push(site.locks.isLocked("c1:eth0"));
    return "done";
  };
  site.start();
  await site.updated();
  assert.deepEqual(seen, [false]);
});
