import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { Address, type DualStack } from "../../../lib/inet/mod.ts";
import type { AllocationRecord, NodeIpam } from "../../../lib/ipam/mod.ts";
import type { PodLink, PodNetwork } from "../../../lib/podnet/mod.ts";
import { RouteRepair } from "./route_repair.ts";

const { signal } = new AbortController();

function dual(ipv4?: string, ipv6?: string): DualStack<Address> {
  return {
    ...(ipv4 !== undefined && { ipv4: Address.parse(ipv4) }),
    ...(ipv6 !== undefined && { ipv6: Address.parse(ipv6) }),
  };
}

function link(n: number, addresses: DualStack<Address> = {}): PodLink {
  return {
    pool: "default",
    containerId: `c${n}`,
    ifname: "eth0",
    index: n,
    hostName: `veth${n}`,
    up: true,
    addresses,
  };
}

class Site {
  readonly locks = new KeyedMutex();
  /** What is known of containers. */
  readonly records = new Map<string, Partial<AllocationRecord>>();
  /** Addresses that pods have, by index. */
  readonly lost = new Map<number, DualStack<Address>>();
  /** "CONTAINER ADDRESSES…" of each end that was restored. */
  readonly restored: string[] = [];
  readonly reported: string[] = [];
  lacks: readonly string[] = ["route"];
  /** Whether a call of ADD or DEL seemed to be under way while an end was restored. */
  seemedBusy = false;
  failure: Error | undefined;
  readonly repair: RouteRepair;

  constructor() {
    const ipam = {
      lookup: ({ containerId }: PodLink) => this.records.get(containerId),
      list: () => [...this.records.values()],
    } as unknown as NodeIpam;
    const restoreEnd = (
      { containerId }: PodLink,
      wanted: DualStack<Address>,
    ) => {
      this.seemedBusy ||= this.locks.isLocked(`${containerId}:eth0`);
      if (this.failure !== undefined) return Promise.reject(this.failure);
      const texts = Object.values(wanted).map(String).toSorted();
      this.restored.push([containerId, ...texts].join(" "));
      return Promise.resolve(this.lacks);
    };
    const network = {
      findLostAddresses: (pods: readonly PodLink[]) =>
        Promise.resolve(
          new Map(pods.flatMap(({ index }) => {
            const found = this.lost.get(index);
            return found === undefined ? [] : [[index, found] as const];
          })),
        ),
      upkeep: {
        listAddresses: () => Promise.resolve(new Map()),
        findEndLacks: () => this.lacks,
        restoreEnd,
      },
    } as unknown as PodNetwork;
    this.repair = new RouteRepair({
      ipam,
      network,
      locks: this.locks,
      reports: { repaired: (what) => void this.reported.push(...what) },
    });
  }

  know(n: number, record: Partial<AllocationRecord> = {}): void {
    this.records.set(`c${n}`, {
      state: "used",
      addresses: dual(`10.64.0.${n}`, `fd02::${n}`),
      ...record,
    });
  }
}

Deno.test("complete() asks pods for addresses that nothing else tells", async () => {
  const site = new Site();
  site.know(2);
  site.lost.set(1, dual("10.64.0.1"));
  site.lost.set(2, dual("10.64.0.9"));
  const whole = link(4, dual("10.64.0.4"));
  const pods = [link(1), link(2), link(3), whole];
  const completed = await site.repair.complete(pods);
  assert.deepEqual(
    completed.map(({ addresses }) => addresses.ipv4?.toString()),
    ["10.64.0.1", undefined, undefined, "10.64.0.4"],
  );
  const nothingLost = [whole];
  assert.equal(await site.repair.complete(nothingLost), nothingLost);
});

Deno.test("repair() gives a pod's end back what it lacks", async () => {
  const site = new Site();
  site.know(1);
  assert.deepEqual(
    await site.repair.repair([link(1)], { signal }),
    { repaired: 1, busy: 0, problems: [] },
  );
  assert.deepEqual(site.restored, ["c1 10.64.0.1 fd02::1"]);
  assert.equal(site.seemedBusy, false, "others need not wait for it");
  assert.deepEqual(site.reported, ["route"]);
  site.lacks = [];
  assert.equal((await site.repair.repair([link(1)], { signal })).repaired, 0);
});

Deno.test("repair() gives a pod whose block was taken away back what it lacks", async () => {
  const site = new Site();
  site.know(1, { state: "quarantined" });
  assert.equal((await site.repair.repair([link(1)], { signal })).repaired, 1);
  assert.deepEqual(site.restored, ["c1 10.64.0.1 fd02::1"]);
});

Deno.test("repair() leaves alone what is worked on, is not in use, or is claimed twice", async () => {
  const site = new Site();
  site.know(1);
  site.know(2, { state: "releasing" });
  site.know(3);
  site.know(4, { addresses: dual("10.64.0.3") });
  using _lock = await site.locks.lock("c1:eth0");
  const pods = [1, 2, 3, 4, 5].map((n) => link(n));
  assert.deepEqual(
    await site.repair.repair(pods, { signal }),
    { repaired: 0, busy: 1, problems: [] },
  );
  assert.deepEqual(site.restored, []);
});

Deno.test("repair() goes on when one pod's end cannot be restored, and says which", async () => {
  const site = new Site();
  site.know(1);
  site.failure = new Error("refused");
  const { repaired, problems } = await site.repair.repair([link(1)], {
    signal,
  });
  assert.equal(repaired, 0);
  assert.deepEqual(problems, [
    'host link "veth1" of 10.64.0.1 and fd02::1: refused',
  ]);
});
