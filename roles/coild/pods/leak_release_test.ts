import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import type { ReleaseResult } from "../../../lib/cnirpc/inspection/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  type EventInfo,
  KubeUnreachableError,
  type ObjectReference,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { NodeEvents } from "../observe/node_events.ts";
import { LeakRelease, type LeakReleaseOptions } from "./leak_release.ts";

const GENERATION = 7;

function keyOf(containerId: string): AttachmentKey {
  return { containerId, ifname: "eth0" };
}

/** A node that keeps addresses 10.64.0.N and fd00::N for these containers, none of which has anything else. */
class Site {
  readonly locks = new KeyedMutex();
  readonly freed: string[] = [];
  readonly former: string[] = [];
  readonly events: string[] = [];
  /** What the kernel, the runtime's namespaces and the API server still have. */
  links: readonly string[] = [];
  husks: readonly string[] = [];
  linkAddresses: readonly string[] = [];
  routes: readonly string[] = [];
  inside: Readonly<Record<string, string>> = {};
  pods: readonly V1Pod[] = [];
  failure: Error | undefined;
  /** Runs while the API server makes its list. */
  onList: () => unknown = () => {};
  readonly #containers: readonly string[];

  constructor(...containers: readonly string[]) {
    this.#containers = containers;
  }

  /** What became of all of them. */
  async release(
    { dryRun = false, generation = GENERATION } = {},
  ): Promise<readonly ReleaseResult[]> {
    const release = new LeakRelease({
      ipam: {
        lookup: (key: AttachmentKey) => this.#lookup(key),
        beginRelease: (key: AttachmentKey) => this.#lookup(key),
        finishRelease: ({ containerId }: AttachmentKey) =>
          void this.freed.push(containerId),
      },
      network: {
        survey: () =>
          Promise.resolve({
            pods: [
              ...this.links.map((name) => ({ ...keyOf(name), addresses: {} })),
              ...this.linkAddresses.map((text) => ({
                ...keyOf("other"),
                addresses: { ipv4: Address.parse(text) },
              })),
            ],
            husks: this.husks.map(keyOf),
          }),
        routedWithin: () =>
          Promise.resolve(this.routes.map((text) => Address.parse(text))),
        addressesInNamespaces: () =>
          Promise.resolve(new Map(Object.entries(this.inside))),
      },
      pods: {
        listLive: async () => {
          await this.onList();
          if (this.failure !== undefined) throw this.failure;
          return this.pods;
        },
      },
      former: {
        note: ({ containerId }: AttachmentKey) =>
          void this.former.push(containerId),
      },
      locks: this.locks,
      nodeEvents: new NodeEvents({
        event: (
          { name, uid }: ObjectReference,
          { reason, message }: EventInfo,
        ) => void this.events.push(`${reason} ${name} ${uid}: ${message}`),
      }, { nodeName: "n1", nodeUid: () => "uid-1" }),
    } as unknown as LeakReleaseOptions);
    const entries = this.#containers.map((name) => ({
      ...keyOf(name),
      generation,
    }));
    return (await release.release({ entries, dryRun })).results;
  }

  #lookup(key: AttachmentKey) {
    const n = this.#containers.indexOf(key.containerId) + 1;
    if (n === 0 || this.freed.includes(key.containerId)) return undefined;
    return {
      ...keyOf(key.containerId),
      pool: "default",
      state: "used" as const,
      generation: GENERATION,
      ageMs: 0,
      addresses: {
        ipv4: Address.parse(`10.64.0.${n}`),
        ipv6: Address.parse(`fd00::${n}`),
      },
    };
  }
}

function pod(
  ip: string,
  { phase = "Running", hostNetwork = false } = {},
): V1Pod {
  return {
    metadata: { namespace: "apps", name: "web" },
    spec: { hostNetwork, containers: [] },
    status: { phase, podIPs: [{ ip }] },
  };
}

/** Each container with what became of it, and why. */
function textsOf(results: readonly ReleaseResult[]): string[] {
  return results.map(({ containerId, outcome, why }) =>
    [containerId, outcome, why].filter(Boolean).join(" ")
  );
}

Deno.test("LeakRelease frees what nothing uses, with one Event", async () => {
  const site = new Site("a", "b");
  const results = await site.release();
  assert.deepEqual(textsOf(results), ["a freed", "b freed"]);
  assert.deepEqual(results[1]?.addresses, ["10.64.0.2", "fd00::2"]);
  assert.deepEqual(site.freed, ["a", "b"]);
  assert.deepEqual(site.former, ["a", "b"]);
  assert.deepEqual(site.events, [
    "LeakedAddressesFreed n1 uid-1: Freed 10.64.0.1 and fd00::1, 10.64.0.2 and fd00::2 by coil ipam check --repair: no interface, network namespace or pod of this node had them",
  ]);
  assert.equal(site.locks.size, 0);
});

Deno.test("LeakRelease says the same without doing it", async () => {
  const site = new Site("a");
  assert.deepEqual(textsOf(await site.release({ dryRun: true })), ["a freed"]);
  assert.deepEqual([site.freed, site.events], [[], []]);
});

const CASES: readonly (readonly [string, Partial<Site>, string])[] = [
  ["has an interface", { links: ["a"] }, "a kept its interface is there"],
  ["has a husk", { husks: ["a"] }, "a kept its interface is there"],
  [
    "has a route",
    { routes: ["fd00::1"] },
    "a kept fd00::1: the node has a route to a pod with it",
  ],
  [
    "has an address that another interface has, too",
    { linkAddresses: ["10.64.0.1"] },
    "a kept 10.64.0.1: the node has a route to a pod with it",
  ],
  [
    "has an address in a namespace of the runtime",
    { inside: { "fd00::1": "/run/netns/x" } },
    "a kept fd00::1: network namespace /run/netns/x has it",
  ],
  [
    "has a pod",
    { pods: [pod("fd00:0::1")] },
    "a kept fd00::1: Pod apps/web has it",
  ],
  [
    "had a pod that has ended",
    { pods: [pod("10.64.0.1", { phase: "Failed" })] },
    "a freed",
  ],
  [
    "cannot be asked about",
    { failure: new KubeUnreachableError("it is away", { cause: null }) },
    "a kept the API server did not list the node's pods: it is away",
  ],
];

for (const [title, change, expected] of CASES) {
  Deno.test(`LeakRelease where an attachment ${title}`, async () => {
    const site = new Site("a", "b");
    Object.assign(site, change);
    const [first] = await site.release();
    assert.ok(first);
    assert.deepEqual(textsOf([first]), [expected]);
    assert.equal(site.freed.includes("a"), expected === "a freed");
  });
}

Deno.test("LeakRelease frees no later use of the same key", async () => {
  const site = new Site("a");
  const results = await site.release({ generation: GENERATION - 1 });
  assert.deepEqual(textsOf(results), ["a gone"]);
  assert.deepEqual(site.freed, []);
});

Deno.test("LeakRelease keeps what a call works on, and lets none begin while it looks", async () => {
  const site = new Site("a", "b");
  using _call = await site.locks.lock(keyText(keyOf("a")));
  let isHeld = false;
  site.onList = () => isHeld = site.locks.isLocked(keyText(keyOf("b")));
  assert.deepEqual(textsOf(await site.release()), [
    "a kept an ADD or DEL of it is under way",
    "b freed",
  ]);
  assert.ok(isHeld);
});

Deno.test("LeakRelease fits many addresses into Events", async () => {
  const site = new Site(...Array.from({ length: 30 }, (_, n) => `c${n}`));
  await site.release();
  assert.deepEqual([site.freed.length, site.events.length], [30, 3]);
  for (const event of site.events) assert.ok(event.length < 1024);
});
