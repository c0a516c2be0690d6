import assert from "node:assert/strict";
import type { AddressPool } from "../../../lib/api/mod.ts";
import { KubeClient, Store, type V1Pod } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import type { CachedPod } from "../base/cached_pod.ts";
import { blockTransform, type CachedBlock } from "../ipam/transform.ts";
import { PoolAudit } from "./pool_audit.ts";

const { signal } = new AbortController();

/** Pools "a" and "b", of which "b" has the second half of "a", with a block of 8 addresses each. */
class Site {
  readonly api = new MemoryApi();
  readonly pods = new Store<CachedPod>();
  readonly pools = new Store<AddressPool>();
  readonly blocks = new Store<CachedBlock>();
  readonly #audit = new PoolAudit({
    client: new KubeClient(this.api),
    ...this,
  });

  constructor() {
    this.putPool("a", "10.64.0.0/27");
    this.putPool("b", "10.64.0.16/28");
    this.putBlock("a", 0, "10.64.0.0/29");
    this.putBlock("b", 1, "10.64.0.24/29");
  }

  putPool(name: string, ipv4: string): void {
    this.pools.set(name, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name },
      spec: { blockSizeBits: 3, subnets: [{ ipv4 }] },
    });
  }

  putBlock(pool: string, index: number, ipv4: string, node = "n1"): void {
    const name = `${pool}-${index}`;
    const labels = {
      "coil.cybozu.com/pool": pool,
      "coil.cybozu.com/node": node,
    };
    this.blocks.set(
      name,
      blockTransform()({
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: { name, labels },
        index,
        ipv4,
      }),
    );
  }

  /** Stores a pod, with other addresses in the cache where they are given. */
  putPod(name: string, ip: string, cached = ip, changes: V1Pod = {}): void {
    this.api.put("pods", {
      metadata: { namespace: "team", name, ...changes.metadata },
      spec: { nodeName: "n1", containers: [] },
      status: { podIPs: [{ ip }], ...changes.status },
    });
    this.pods.set(`team/${name}`, { addresses: cached });
  }

  async found(): Promise<string[]> {
    const found = await this.#audit.look(signal);
    return found.map(({ code, object, pool }) => `${code} ${object} ${pool}`);
  }
}

Deno.test("PoolAudit finds nothing where pods have addresses of blocks, also where pools overlap, and asks for no pod", async () => {
  const site = new Site();
  site.putPod("one", "10.64.0.1");
  site.putPod("of-b", "10.64.0.25");
  site.putPod("other-cni", "192.0.2.1");
  site.putPod("twin", "192.0.2.1");
  site.api.request = () => assert.fail("It asked for a pod");
  assert.deepEqual(await site.found(), []);
});

Deno.test("PoolAudit finds pods that share an address, have one of no block, and blocks of nothing", async () => {
  const site = new Site();
  site.putPod("a", "10.64.0.1");
  site.putPod("b", "10.64.0.1");
  site.putPod("outside", "10.64.0.9");
  site.putBlock("a", 3, "nonsense");
  site.putBlock("gone", 0, "10.65.0.0/29");
  assert.deepEqual((await site.found()).sort(), [
    "address-outside-of-blocks Pod team/outside a",
    "block-unreadable AddressBlock a-3 a",
    "block-without-pool AddressBlock gone-0 gone",
    "duplicate-address Pod team/a a",
    "duplicate-address Pod team/b a",
  ]);
});

for (
  const [what, change] of [
    ["has ended", (site: Site) =>
      site.putPod("b", "10.64.0.1", "10.64.0.1", {
        status: { phase: "Failed" },
      })],
    ["ends", (site: Site) =>
      site.putPod("b", "10.64.0.1", "10.64.0.1", {
        metadata: { deletionTimestamp: "2026-06-01T00:00:00Z" },
      })],
    [
      "has another address by now",
      (site: Site) => site.putPod("b", "10.64.0.2", "10.64.0.1"),
    ],
    ["is gone", (site: Site) => site.api.remove("pods/team/b")],
  ] as const
) {
  Deno.test(`PoolAudit does not believe its caches of a pod that ${what}`, async () => {
    const site = new Site();
    site.putPod("a", "10.64.0.1");
    site.putPod("b", "10.64.0.1");
    change(site);
    assert.deepEqual(await site.found(), []);
  });
}

Deno.test("PoolAudit asks for a hundred pods or so at most, and fails when it cannot", async () => {
  const site = new Site();
  let asked = 0;
  for (let n = 0; n < 2_500; n++) site.putPod(`pod-${n}`, "10.64.0.9");
  const { request } = site.api;
  site.api.request = (...args) => {
    asked++;
    return request.apply(site.api, args);
  };
  const found = await site.found();
  assert.ok(found.length >= 100 && found.length <= 101, `${found.length}`);
  assert.equal(asked, found.length);
  site.api.request = () => Promise.reject(new Error("away"));
  await assert.rejects(site.found(), /away/);
});
