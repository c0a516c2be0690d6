import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import type { StoreChange, V1Namespace, V1Pod } from "../../../lib/kube/mod.ts";
import type { SourceChoice } from "../cluster/any_source.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import { SourceWatch } from "./source_watch.ts";

const ASKS = { "coil.cybozu.com/any-source": "true" };

function podOf(
  name: string,
  annotations: Readonly<Record<string, string>> = {},
): V1Pod {
  const uid = `uid-${name}`;
  return { metadata: { namespace: "team", name, uid, annotations } };
}

class Site {
  /** The pods, and what each may send. */
  readonly pods = new Map<V1Pod, SourceChoice | undefined>();
  readonly events: string[] = [];
  changes = 0;
  #onPod: (change: StoreChange<V1Pod>) => void = () => {};
  #onNamespace: (change: StoreChange<V1Namespace>) => void = () => {};
  readonly watch = new SourceWatch({
    pods: {
      knownSourcesOf: (pod: V1Pod) => this.pods.get(pod),
      list: () => [...this.pods.keys()],
      withAddress: () => [...this.pods.keys()],
      subscribe: (listener: (change: StoreChange<V1Pod>) => void) => {
        this.#onPod = listener;
        return { [Symbol.dispose]() {} };
      },
      subscribeNamespaces: (
        listener: (change: StoreChange<V1Namespace>) => void,
      ) => {
        this.#onNamespace = listener;
        return { [Symbol.dispose]() {} };
      },
    } as unknown as PodSource,
    events: {
      record: ({ namespace, name }, { reason }) =>
        void this.events.push(`${reason} of ${namespace}/${name}`),
    },
  });

  subscribe(): Disposable {
    return this.watch.subscribe(() => void this.changes++);
  }

  pod(
    type: StoreChange<V1Pod>["type"],
    object: V1Pod,
    choice?: SourceChoice,
  ): void {
    if (type === "deleted") this.pods.delete(object);
    else this.pods.set(object, choice);
    this.#onPod({ type, object, key: `team/${object.metadata?.name}` });
  }

  namespace(name: string): void {
    const object = { metadata: { name } };
    this.#onNamespace({ type: "updated", object, key: name });
  }
}

Deno.test("choiceOf() takes the strictest of the pods that have an address", () => {
  const address = Address.parse("10.64.0.1");
  const cases: readonly (readonly [
    SourceChoice | undefined,
    ...(SourceChoice | undefined)[],
  ])[] = [
    [undefined],
    [undefined, undefined],
    ["any", "any"],
    ["any", undefined, "any"],
    ["refused", "any", "refused"],
    ["own", "any", "own", "refused"],
  ];
  for (const [expected, ...choices] of cases) {
    const site = new Site();
    for (const [n, choice] of choices.entries()) {
      site.pods.set(podOf(`p${n}`), choice);
    }
    assert.equal(site.watch.choiceOf(address), expected);
  }
});

Deno.test("only pods that ask, or asked, change a choice", () => {
  const site = new Site();
  using _subscription = site.subscribe();
  const plain = podOf("plain");
  site.pod("added", plain, "own");
  site.namespace("team");
  assert.equal(site.changes, 0);
  const asking = podOf("asks", ASKS);
  site.pod("added", asking, "any");
  assert.equal(site.changes, 1);
  site.namespace("team");
  assert.equal(site.changes, 2);
  site.namespace("other");
  assert.equal(site.changes, 2);
  site.pods.delete(asking);
  const ended = podOf("asks");
  site.pod("updated", ended, "own");
  assert.equal(site.changes, 3);
  site.pod("updated", ended, "own");
  assert.equal(site.changes, 3);
  site.pod("updated", podOf("asks", ASKS), "any");
  site.pod("deleted", podOf("asks", ASKS));
  assert.equal(site.changes, 5);
});

Deno.test("a pod that asks in vain gets one Event, and another when it was allowed in between", () => {
  const site = new Site();
  const pod = podOf("asks", ASKS);
  site.pods.set(pod, "refused");
  using _subscription = site.subscribe();
  const told = "AnySourceRefused of team/asks";
  assert.deepEqual(site.events, [told]);
  site.pod("updated", pod, "refused");
  site.namespace("team");
  assert.deepEqual(site.events, [told]);
  site.pods.set(pod, "any");
  site.namespace("team");
  site.pods.set(pod, "refused");
  site.namespace("team");
  assert.deepEqual(site.events, [told, told]);
});
