import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { NetworkMemory } from "../network/memory.ts";
import { GarbageCollector, type GarbageCollectorOptions } from "./garbage.ts";

const { signal } = new AbortController();

function keyOf(containerId: string): AttachmentKey {
  return { containerId, ifname: "eth0" };
}

/** A node with a link for each of these containers, whose address is 10.64.0.N. */
class Site {
  readonly networks = new NetworkMemory();
  readonly locks = new KeyedMutex();
  /** Addresses of pods, as the API server has them. */
  readonly podIps: string[] = [];
  isSynced = true;
  /** Runs while attachments are listed. */
  onList: () => unknown = () => {};
  /** Containers that cannot be released, and those that were replaced after the list. */
  readonly broken = new Set<string>();
  readonly taken = new Set<string>();
  readonly #containers: readonly string[];

  constructor(...containers: readonly string[]) {
    this.#containers = containers;
    for (const name of containers) this.networks.remember(keyOf(name), "net");
  }

  /** What a GC releases of network "net" whose runtime has these containers; also what it fails with. */
  async collect(...valid: readonly string[]): Promise<string[]> {
    const released: string[] = [];
    const collector = new GarbageCollector({
      ipam: {
        // The last one's link is gone.
        list: () => [this.#records().at(-1)],
      },
      network: {
        list: async () => {
          await this.onList();
          return this.#records().slice(0, -1);
        },
      },
      pods: {
        isSynced: this.isSynced,
        list: () => this.podIps.map((ip) => ({ status: { podIPs: [{ ip }] } })),
      },
      teardown: {
        startListed: ({ containerId }: AttachmentKey) => {
          if (this.broken.has(containerId)) throw new Error(containerId);
          return Promise.resolve(!this.taken.has(containerId));
        },
      },
      networks: this.networks,
      locks: this.locks,
    } as unknown as GarbageCollectorOptions);
    const args = {
      stdinData: new TextEncoder().encode(
        JSON.stringify({
          cniVersion: "1.1.0",
          name: "net",
          "cni.dev/valid-attachments": valid.map((containerID) => ({
            containerID,
            ifname: "eth0",
          })),
        }),
      ),
      validAttachments: valid.map(keyOf),
    } as unknown as CniRequest;
    try {
      const onReleased = ({ containerId }: AttachmentKey) =>
        void released.push(containerId);
      await collector.collect(args, { signal, onReleased });
    } catch (error) {
      released.push(`${error}`);
    }
    return released;
  }

  #records() {
    return this.#containers.map((containerId, n) => ({
      ...keyOf(containerId),
      pool: "default",
      generation: n,
      addresses: { ipv4: Address.parse(`10.64.0.${n}`) },
    }));
  }
}

Deno.test("GC releases what the runtime does not have, with a link or without", async () => {
  const site = new Site("a", "b", "c");
  assert.deepEqual(await site.collect("b"), ["a", "c"]);
  assert.equal(site.networks.networkOf(keyOf("a")), undefined);
  assert.equal(site.networks.networkOf(keyOf("b")), "net");
});

Deno.test("GC keeps what was added under another network, or since the runtime made its list", async () => {
  const site = new Site("a", "b", "c");
  site.networks.remember(keyOf("b"), "other");
  site.onList = () => site.networks.remember(keyOf("c"), "net");
  assert.deepEqual(await site.collect(), ["a"]);
});

Deno.test("GC keeps what others work on", async () => {
  const site = new Site("a", "b", "c");
  using _before = await site.locks.lock(keyText(keyOf("c")), { signal });
  let during: Disposable | undefined;
  site.onList = async () =>
    during = await site.locks.lock(keyText(keyOf("a")), { signal });
  assert.deepEqual(await site.collect(), ["b"]);
  during?.[Symbol.dispose]();
  site.taken.add("b");
  site.onList = () => {};
  site.networks.remember(keyOf("b"), "net");
  assert.deepEqual(await site.collect(), ["a"]);
});

Deno.test("GC keeps what an earlier process added while a pod has its address, or that is unknown", async () => {
  const site = new Site("a", "b", "c");
  for (const name of ["a", "b", "c"]) site.networks.forget(keyOf(name));
  site.isSynced = false;
  assert.deepEqual(await site.collect(), []);
  site.isSynced = true;
  site.podIps.push("10.64.0.9", "10.64.0.1");
  assert.deepEqual(await site.collect("c"), ["a"]);
});

Deno.test("GC goes on after a failure, and fails in the end", async () => {
  const site = new Site("a", "b", "c");
  site.broken.add("a");
  assert.deepEqual(await site.collect(), [
    ...["b", "c"],
    "AggregateError: Cannot release 1 attachments",
  ]);
  assert.equal(site.networks.networkOf(keyOf("a")), "net");
});
