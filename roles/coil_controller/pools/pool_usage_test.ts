import assert from "node:assert/strict";
import type {
  AddressPool,
  ReservedAddress,
  SubnetSpec,
} from "../../../lib/api/mod.ts";
import type { StoreChange } from "../../../lib/kube/mod.ts";
import type { CachedPod } from "../base/cached_pod.ts";
import { PoolUsage } from "./pool_usage.ts";

type Change<T> = Pick<StoreChange<T>, "type" | "key" | "object">;

/** An informer that reports the changes that the test makes. */
class Told<T> {
  hasSynced = true;
  tell: (change: Change<T>) => void = () => {};

  subscribe(listener: (change: Change<T>) => void): Disposable {
    this.tell = listener;
    return { [Symbol.dispose]: () => void (this.tell = () => {}) };
  }
}

/** Pods and pools as informers report them, and what is counted of them. */
class Site implements Disposable {
  readonly changed: string[] = [];
  readonly pods = new Told<CachedPod>();
  readonly #pools = new Told<AddressPool>();
  readonly #usage: PoolUsage;

  constructor() {
    this.#usage = new PoolUsage({ pods: this.pods, pools: this.#pools });
    this.#usage.subscribe((name) => void this.changed.push(name));
  }

  [Symbol.dispose](): void {
    this.#usage[Symbol.dispose]();
  }

  /** What is reserved in the pools that come from now on. */
  reserved: readonly string[] = [];

  pool(key: string, generation: number, ...subnets: SubnetSpec[]): void {
    const object: AddressPool = {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name: key, uid: `uid-of-${key}`, generation },
      spec: { blockSizeBits: 2, subnets, reserved: this.reserved },
    };
    this.#pools.tell({ type: "updated", key, object });
  }

  dropPool(key: string): void {
    this.#pools.tell({ type: "deleted", key, object: {} as AddressPool });
  }

  put(key: string, ...addresses: string[]): void {
    const object = { addresses: addresses.join(" ") };
    this.pods.tell({ type: "added", key, object });
  }

  remove(key: string): void {
    this.pods.tell({ type: "deleted", key, object: {} });
  }

  reservedInUse(): readonly ReservedAddress[] {
    return this.#usage.of("p")?.reserved ?? [];
  }

  /** Counts by index: "ipv4 0:2 1:1 ipv6 0:2". */
  text(name = "p"): string | undefined {
    const used = this.#usage.of(name);
    if (used === undefined) return undefined;
    return (["ipv4", "ipv6"] as const).flatMap((family) => {
      const counts = [...used[family]].map(([index, n]) => `${index}:${n}`);
      return counts.length === 0 ? [] : [family, ...counts.sort()];
    }).join(" ");
  }
}

const DUAL = { ipv4: "10.2.0.0/28", ipv6: "fd02::/124" };

Deno.test("PoolUsage counts pods' addresses by block and family, as pods come, change and go", () => {
  using site = new Site();
  site.pool("p", 1, DUAL);
  assert.equal(site.text(), "");
  site.put("team/a", "10.2.0.0", "fd02::0");
  site.put("team/b", "10.2.0.3", "fd02::3");
  site.put("team/c", "10.2.0.4");
  assert.equal(site.text(), "ipv4 0:2 1:1 ipv6 0:2");
  site.put("team/c", "10.2.0.15");
  assert.equal(site.text(), "ipv4 0:2 3:1 ipv6 0:2");
  site.remove("team/a");
  site.remove("team/c");
  site.remove("team/none");
  assert.equal(site.text(), "ipv4 0:1 ipv6 0:1");
});

Deno.test("PoolUsage calls back about a pool only when its numbers change", () => {
  using site = new Site();
  site.pool("p", 1, DUAL);
  site.pool("q", 1, { ipv4: "10.9.0.0/28" });
  site.put("team/a", "10.2.0.0", "fd02::0");
  assert.deepEqual(site.changed.splice(0), ["p"]);
  site.put("team/a", "10.2.0.0", "fd02::0");
  site.put("team/other", "192.0.2.1", "2001:db8::1", "none", "");
  site.remove("team/other");
  assert.deepEqual(site.changed.splice(0), [], "nothing of the pools");
  site.remove("team/a");
  assert.deepEqual(site.changed, ["p"]);
});

Deno.test("PoolUsage counts the pods that are there in a pool that comes or grows, once", () => {
  using site = new Site();
  site.put("team/a", "10.2.0.0");
  site.put("team/b", "10.4.0.1");
  assert.equal(site.text(), undefined, "no such pool");
  const subnet = { ipv4: "10.2.0.0/28" };
  site.pool("p", 1, subnet);
  assert.equal(site.text(), "ipv4 0:1");
  site.pool("p", 1, subnet);
  assert.equal(site.text(), "ipv4 0:1");
  site.pool("p", 2, subnet, { ipv4: "10.4.0.0/28" });
  assert.equal(site.text(), "ipv4 0:1 4:1");
  site.dropPool("p");
  site.put("team/c", "10.2.0.2");
  assert.equal(site.text(), undefined);
});

Deno.test("PoolUsage knows which pods have reserved addresses, as pods and what is reserved change", () => {
  using site = new Site();
  const inUse = () =>
    site.reservedInUse().map(({ address, pod, index }) =>
      `${address} ${pod} ${index}`
    ).sort();
  site.put("team/a", "10.2.0.0", "fd02::0");
  site.put("team/b", "10.2.0.5");
  site.pool("p", 1, DUAL);
  assert.deepEqual(inUse(), []);
  site.reserved = ["fd02::0", "10.2.0.4-10.2.0.7", "10.9.0.0/16"];
  site.pool("p", 2, DUAL);
  assert.deepEqual(inUse(), ["10.2.0.5 team/b 1", "fd02:: team/a 0"]);
  site.put("team/c", "10.2.0.7");
  site.put("team/other", "10.9.0.1");
  site.remove("team/b");
  assert.deepEqual(inUse(), ["10.2.0.7 team/c 1", "fd02:: team/a 0"]);
  // While one pod goes and another comes, both may have the address.
  site.put("team/d", "10.2.0.7");
  site.remove("team/c");
  assert.deepEqual(inUse(), ["10.2.0.7 team/d 1", "fd02:: team/a 0"]);
  site.reserved = [];
  site.pool("p", 3, DUAL);
  assert.deepEqual(inUse(), []);
});

Deno.test("PoolUsage knows nothing before all pods have come", () => {
  using site = new Site();
  site.pods.hasSynced = false;
  site.pool("p", 1, DUAL);
  site.put("team/a", "10.2.0.0");
  assert.equal(site.text(), undefined);
  site.pods.hasSynced = true;
  assert.equal(site.text(), "ipv4 0:1");
});
