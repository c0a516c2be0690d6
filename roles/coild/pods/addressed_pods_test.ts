import assert from "node:assert/strict";
import type { ChosenPools } from "../../../lib/api/mod.ts";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  type NodeIpam,
  OutOfBlocksError,
  PoolNotFoundError,
} from "../../../lib/ipam/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import type {
  PodLink,
  PodNetwork,
  SetupResult,
} from "../../../lib/podnet/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { AddressError } from "../base/errors.ts";
import { PodAnnouncement } from "../calls/announcement.ts";
import type { AddRequest } from "../calls/cni_request.ts";
import { NetworkMemory } from "../network/memory.ts";
import { CoildMetrics } from "../observe/metrics.ts";
import { AddressedPods } from "./addressed_pods.ts";
import type { Teardown } from "./teardown.ts";

const { signal } = new AbortController();
const POD = { namespace: "team", name: "web" };
const KEY = { containerId: "c1", ifname: "eth0" };
const ADDRESSES = {
  ipv4: Address.parse("10.64.0.1"),
  ipv6: Address.parse("fd00::1"),
};
const REQUEST: AddRequest = {
  ...KEY,
  netns: "/run/netns/a",
  network: "net",
  chained: false,
  ips: [],
  pod: POD,
};

class Site {
  readonly done: unknown[] = [];
  readonly registry = createRegistry();
  readonly networks = new NetworkMemory();
  readonly pods: AddressedPods;
  /** What an attachment that was there before has. */
  pool = "default";
  asks: "any" | "own" | "refused" = "own";
  exhausted: Error | undefined;
  setupFails = false;
  made: Partial<SetupResult> = { isFirst: true, mtu: 1400 };
  isKnown = true;
  links: readonly Partial<PodLink>[] = [];
  named: readonly string[] = ["default"];
  from: ChosenPools["from"] = "namespace";

  constructor(only?: string) {
    this.pods = new AddressedPods({
      ipam: {
        allocate: () =>
          this.exhausted === undefined
            ? Promise.resolve({
              pool: this.pool,
              block: "default-0",
              addresses: ADDRESSES,
            })
            : Promise.reject(this.exhausted),
        blocks: () => [],
        lookup: () => this.isKnown ? { addresses: ADDRESSES } : undefined,
      } as unknown as NodeIpam,
      network: {
        setup: (wanted: unknown) => {
          if (this.setupFails) throw new Error("no memory");
          this.done.push(wanted);
          return Promise.resolve({
            hostName: "veth1",
            hostMac: "02:00:00:00:00:01",
            podMac: "02:00:00:00:00:02",
            ...this.made,
          });
        },
        list: () => Promise.resolve(this.links),
        check: (wanted: unknown) => Promise.resolve(this.done.push(wanted)),
      } as unknown as PodNetwork,
      pods: {
        poolsOf: () =>
          Promise.resolve({
            kind: "chosen",
            pools: [...this.named],
            from: this.from,
          }),
        sourcesOf: () => Promise.resolve(this.asks),
      },
      blocks: {
        exports: only === undefined,
        poolNames: () => ["default"],
        ...(only !== undefined && {
          pool: only,
          finding: () => ({ text: "EC2 is closed", event: "it is closed" }),
        }),
      },
      metrics: new CoildMetrics(this.registry),
      teardown: {
        undo: (key: unknown, _locks: unknown, options: unknown) =>
          Promise.resolve(this.done.push("undo", key, options)),
      } as unknown as Teardown,
      garbage: { collect: () => Promise.resolve() },
      networks: this.networks,
      locks: new KeyedMutex(),
      later: (work) => work(),
    });
  }

  async connect(announcement?: PodAnnouncement) {
    using held = new DisposableStack();
    const facts = {
      ...POD,
      uid: "u1",
      annotations: {},
      from: "cache",
      isGateway: false,
    } as const;
    const options = { held, signal, announcement };
    return await this.pods.connect(REQUEST, facts, options);
  }
}

Deno.test("connect() gives the pod addresses of its pool, and answers with them", async () => {
  const site = new Site();
  const { result, freshMtu, key, addresses, uid } = await site.connect();
  assert.deepEqual(site.done, [{
    ...KEY,
    pool: "default",
    netnsPath: "/run/netns/a",
    pod: POD,
    addresses: ADDRESSES,
    sources: "own",
  }]);
  assert.deepEqual(
    result.ips?.map(({ address, interface: of }) => [address, of]),
    [["10.64.0.1/32", 0], ["fd00::1/128", 0]],
  );
  assert.deepEqual(result.interfaces, [
    { name: "eth0", mac: "02:00:00:00:00:02", sandbox: "/run/netns/a" },
    { name: "veth1", mac: "02:00:00:00:00:01" },
  ]);
  assert.deepEqual([key, addresses, uid], [KEY, ADDRESSES, "u1"]);
  assert.equal(freshMtu, 1400);
  assert.equal(site.networks.networkOf(KEY), "net");
});

Deno.test("connect() lets gateways know of a new client if they can look up its block", async () => {
  const cases: [string | undefined, string[]][] = [
    [undefined, ["default-0"]],
    ["vpc", []],
  ];
  for (const [only, blocks] of cases) {
    const announced: (string | undefined)[] = [];
    await using announcement = new PodAnnouncement(signal, ({ block }) => {
      announced.push(block);
      return Promise.resolve();
    });
    await new Site(only).connect(announcement);
    assert.deepEqual(announced, blocks);
  }
});

Deno.test("connect() knows an MTU only of a new interface that was given one", async () => {
  for (
    const made of [{ isFirst: false, mtu: 1400 }, { isFirst: true, mtu: 0 }]
  ) {
    const site = new Site();
    site.made = made;
    assert.equal((await site.connect()).freshMtu, undefined);
  }
});

Deno.test("connect() lets a pod send from any source only where that is allowed", async () => {
  for (
    const [asks, sources] of [
      ["any", "any"],
      ["refused", "own"],
    ] as const
  ) {
    const site = new Site();
    site.asks = asks;
    site.pool = "earlier";
    await site.connect();
    const [{ pool, sources: given }] = site.done as [Record<string, unknown>];
    assert.deepEqual([pool, given], ["earlier", sources]);
  }
});

Deno.test("connect() takes back what it did when the pod cannot be connected", async () => {
  const site = new Site();
  site.setupFails = true;
  await assert.rejects(site.connect(), /^Error: no memory$/);
  assert.deepEqual(site.done, ["undo", KEY, { pod: POD }]);
  assert.equal(site.networks.networkOf(KEY), undefined);
});

Deno.test("connect() counts a pool without addresses, and no other failure", async () => {
  const site = new Site();
  const count = async () =>
    /^coil_coild_pool_exhausted_adds_total\{pool="default"\} (.*)$/m
      .exec(await site.registry.metrics())?.[1];
  site.exhausted = new OutOfBlocksError("default");
  await assert.rejects(site.connect(), AddressError);
  assert.equal(await count(), "1");
  site.exhausted = new Error("no memory");
  await assert.rejects(site.connect());
  assert.equal(await count(), "1");
  assert.deepEqual(site.done, []);
});

Deno.test("accept() refuses a place behind another plugin", () => {
  const { pods } = new Site();
  pods.accept(REQUEST);
  assert.throws(() => pods.accept({ ...REQUEST, chained: true }));
});

Deno.test("check() goes by the addresses that are known, else by the kernel's", async () => {
  const site = new Site();
  const args = {
    ...KEY,
    netns: "",
    args: { K8S_POD_NAME: "web", K8S_POD_NAMESPACE: "team" },
  };
  const check = async (netns = "") => {
    await site.pods.check({ ...args, netns } as never, { signal });
    return site.done.pop() as Record<string, unknown>;
  };
  assert.deepEqual((await check())["addresses"], ADDRESSES);
  assert.ok(!("netnsPath" in await check()));
  assert.equal((await check("/run/netns/a"))["netnsPath"], "/run/netns/a");
  site.isKnown = false;
  assert.deepEqual((await check())["addresses"], {});
  const { ipv4 } = ADDRESSES;
  site.links = [
    { containerId: "c2", ifname: "eth0", addresses: ADDRESSES },
    { ...KEY, addresses: { ipv4 } },
  ];
  assert.deepEqual((await check())["addresses"], { ipv4 });
});

Deno.test("find() knows pods by an address of the main interface, and one that goes by nothing", async () => {
  const site = new Site();
  const { ipv4, ipv6 } = ADDRESSES;
  site.links = [
    { containerId: "c1", ifname: "eth0", addresses: { ipv6 } },
    { containerId: "c1", ifname: "net1", addresses: { ipv4 } },
  ];
  const podOf = (name: string, ips: string[], deletionTimestamp?: string) =>
    ({
      metadata: {
        namespace: "team",
        name,
        uid: `uid-of-${name}`,
        ...deletionTimestamp !== undefined && { deletionTimestamp },
      },
      status: { podIPs: ips.map((ip) => ({ ip })) },
    }) as V1Pod;
  const found = await site.pods.find([
    podOf("both", ["10.64.0.1", "fd00::1"]),
    podOf("second", ["10.64.0.1"]),
    podOf("going", ["fd00::1"], "2026-01-01T00:00:00Z"),
  ]);
  assert.deepEqual([...found.keys()], ["team/both"]);
  const { key, pod, uid, byAddress } = found.get("team/both") ?? {};
  assert.deepEqual(key, KEY);
  assert.deepEqual(pod, { namespace: "team", name: "both" });
  assert.deepEqual([uid, byAddress], ["uid-of-both", true]);
});

Deno.test("where there is one pool alone, a namespace that names another one gets no pods, and errors say what that pool does", async () => {
  const site = new Site("vpc");
  site.exhausted = new OutOfBlocksError("vpc");
  const error = await site.connect().catch((error: unknown) => error);
  assert.ok(error instanceof AddressError);
  const failed = 'Cannot give pod "team/web" an address of pool "vpc"';
  assert.equal(error.message, `${failed}: EC2 is closed`);
  assert.equal(error.event, `${failed}: it is closed`);
  site.named = ["vpc"];
  site.exhausted = undefined;
  await site.connect();
  site.named = ["default", "other"];
  for (
    const [from, owner] of [
      ["namespace", 'namespace "team"'],
      ["pod", 'pod "team/web"'],
    ] as const
  ) {
    site.from = from;
    await assert.rejects(site.connect(), {
      name: "AddressError",
      message:
        `Cannot give pod "team/web" an address of pool "other": this node's pods have addresses of the VPC; remove annotation "coil.cybozu.com/pool" of ${owner}`,
    });
  }
});

Deno.test("a pod that names its pool itself gets an error about its own annotation", async () => {
  const site = new Site();
  site.named = ["blue"];
  site.from = "pod";
  site.exhausted = new PoolNotFoundError("blue");
  await assert.rejects(
    site.connect(),
    /create it, or correct annotation "coil.cybozu.com\/pool" of pod "team\/web" \(pools: default\)$/,
  );
});
