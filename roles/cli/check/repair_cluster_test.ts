import { findingsOf } from "../../../lib/ipam/audit/mod.ts";
import assert from "node:assert/strict";
import type { AddressBlock, BlockRequest } from "../../../lib/api/mod.ts";
import {
  type EventInfo,
  KubeClient,
  type ObjectReference,
} from "../../../lib/kube/mod.ts";
import { FakeTransport, MemoryApi } from "../../../lib/kube/testing.ts";
import { Looker } from "../base/looker.ts";
import { AGO, block, NOW, pool } from "../../../lib/ipam/audit/testing.ts";
import { readBooks } from "./read_books.ts";
import { repairCluster } from "./repair_cluster.ts";

const FINALIZER = "coil.cybozu.com";

/** Of an account that may list nothing. */
function blindLooker(): Looker {
  const refusing = new FakeTransport(() => ({ status: 403, body: {} }));
  return new Looker(new KubeClient(refusing), 500);
}

/** A cluster with Node n1, and block default-1 of a node that is gone. */
class Site {
  readonly api = new MemoryApi();
  readonly client = new KubeClient(this.api);
  readonly events: string[] = [];
  /** Whether pods may be listed. */
  seesPods = true;
  /** Runs between the look and the repair. */
  inBetween: () => void = () => {};

  constructor() {
    this.api.put("nodes", { metadata: { name: "n1" } });
    this.api.put(
      "addresspools",
      pool("default", [{ ipv4: "10.2.0.0/24" }]),
    );
    this.putBlock(1, "gone");
  }

  putBlock(
    index: number,
    node: string,
    { pool = "default", labels = {} }: {
      readonly pool?: string;
      readonly labels?: Readonly<Record<string, string>>;
    } = {},
  ): void {
    const made: AddressBlock = block([pool, index, node], {
      ipv4: `10.2.0.${32 * index}/27`,
    }, { labels });
    const metadata = { ...made.metadata, finalizers: [FINALIZER] };
    this.api.put("addressblocks", { ...made, metadata });
  }

  putPod(name: string, node: string, ip?: string): void {
    this.api.put("pods", {
      metadata: { namespace: "apps", name },
      spec: { nodeName: node, containers: [] },
      status: { podIPs: ip === undefined ? [] : [{ ip }] },
    });
  }

  putRequest(
    name: string,
    node: string,
    { isRefused = false, hours = 1 } = {},
  ) {
    const request: BlockRequest = {
      apiVersion: "coil.cybozu.com/v2",
      kind: "BlockRequest",
      metadata: { name, creationTimestamp: AGO(hours) },
      spec: { nodeName: node, poolName: "default" },
      status: {
        conditions: isRefused
          ? [{ type: "Failed", status: "True", reason: "r", message: "m" }]
          : [],
      },
    };
    this.api.put("blockrequests", request);
  }

  /** Each repair, and each problem with the reason why it is kept. */
  async repair({ dryRun = false } = {}): Promise<string[]> {
    const books = await readBooks(new Looker(this.client, 500));
    const findings = findingsOf(books, NOW);
    this.inBetween();
    const { repairs, problems } = await repairCluster(findings, {
      client: this.client,
      looker: this.seesPods ? new Looker(this.client, 500) : blindLooker(),
      books,
      recorder: {
        event: ({ kind, name, uid }: ObjectReference, info: EventInfo) =>
          void this.events.push(`${info.reason} ${kind} ${name} ${uid}`),
      },
      dryRun,
      minAgeMs: 300_000,
      now: NOW,
    });
    const reasonOf = (message: string) => message.split("not repaired: ")[1];
    return [
      ...repairs.map(({ object }) => `repaired ${object}`),
      ...problems.map(({ object, message }) =>
        `${object}: ${reasonOf(message)}`
      ),
    ];
  }

  get blocks(): string[] {
    return this.api.keys.filter((key) => key.startsWith("addressblocks"));
  }
}

Deno.test("repairCluster() releases a block of a node that is gone, and says the same before", async () => {
  const site = new Site();
  assert.deepEqual(await site.repair({ dryRun: true }), [
    "repaired AddressBlock default-1",
  ]);
  assert.deepEqual([site.api.writes, site.events], [[], []]);
  assert.deepEqual(await site.repair(), ["repaired AddressBlock default-1"]);
  assert.deepEqual(site.blocks, []);
  assert.deepEqual(site.events, [
    "OrphanedBlockReleased AddressBlock default-1 uid-of-addressblocks//default-1",
  ]);
});

Deno.test("repairCluster() makes one repair of a block without node and pool", async () => {
  const site = new Site();
  site.api.remove("addresspools//default");
  assert.deepEqual(await site.repair(), ["repaired AddressBlock default-1"]);
});

const KEPT: readonly (readonly [string, (site: Site) => void, string])[] = [
  [
    "the Node is back",
    (site) => {
      site.inBetween = () =>
        site.api.put("nodes", { metadata: { name: "gone" } });
    },
    "Node gone exists, and its coild returns the block when it is empty",
  ],
  [
    "a pod is bound to the node",
    (site) => site.putPod("proxy", "gone"),
    "Pod apps/proxy is bound to Node gone, so the machine may still run",
  ],
  [
    "pods have its addresses",
    (site) => {
      for (let n = 0; n < 5; n++) site.putPod(`p${n}`, "n1", `10.2.0.4${n}`);
      // Pools may overlap.
      site.putBlock(1, "gone", { pool: "other" });
    },
    "Pods apps/p0, apps/p1, apps/p2 and 2 more have addresses of it",
  ],
  [
    "it is reserved",
    (site) =>
      site.putBlock(1, "gone", {
        labels: { "coil.cybozu.com/reserved": "true" },
      }),
    "it is reserved for a migration from Coil v1",
  ],
  [
    "it has no node",
    (site) => site.putBlock(1, ""),
    "without a label of its node, any node may use it",
  ],
  [
    "pods may not be listed",
    (site) => {
      site.seesPods = false;
    },
    "you may not list pods",
  ],
  [
    "it cannot be deleted",
    (site) => {
      site.api.refuse = (write) => write.startsWith("DELETE") ? 403 : undefined;
    },
    'Cannot delete AddressBlock "default-1": API server answered 403',
  ],
];

for (const [title, change, why] of KEPT) {
  Deno.test(`repairCluster() keeps a block where ${title}`, async () => {
    const site = new Site();
    change(site);
    const before = site.blocks;
    const outcomes = await site.repair();
    const own = outcomes.filter((text) => text.includes("AddressBlock "));
    assert.ok(own.some((text) => text.includes(`: ${why}`)), own.join());
    assert.ok(!outcomes.some((text) => text.startsWith("repaired")));
    assert.deepEqual([site.blocks, site.events], [before, []]);
  });
}

Deno.test("repairCluster() leaves an object alone that has the name of the one that was found", async () => {
  const site = new Site();
  site.putRequest("orphan", "gone");
  site.inBetween = () => {
    for (const key of ["addressblocks//default-1", "blockrequests//orphan"]) {
      site.api.remove(key);
    }
    const made = block(["default", 1, "gone"], { ipv4: "10.2.0.32/27" });
    const metadata = { ...made.metadata, uid: "another" };
    site.api.put("addressblocks", { ...made, metadata });
  };
  assert.deepEqual(await site.repair(), []);
  assert.deepEqual(site.blocks, ["addressblocks//default-1"]);
});

Deno.test("repairCluster() deletes old requests that are refused or of no node, once", async () => {
  const site = new Site();
  site.api.remove("addressblocks//default-1");
  site.putRequest("refused", "n1", { isRefused: true });
  site.putRequest("orphan", "gone");
  site.putRequest("waiting", "n1");
  site.putRequest("young", "gone", { hours: 1 / 30 });
  assert.deepEqual((await site.repair()).toSorted(), [
    "BlockRequest waiting: coil-controller may still answer it",
    "BlockRequest young: it is younger than 5m0s, and its coild may wait for it",
    "repaired BlockRequest orphan",
    "repaired BlockRequest refused",
  ]);
  assert.deepEqual(site.events.toSorted(), [
    "OldRequestDeleted BlockRequest orphan uid-of-blockrequests//orphan",
    "OldRequestDeleted BlockRequest refused uid-of-blockrequests//refused",
  ]);
});

Deno.test("repairCluster() deletes no request that has changed since the look", async () => {
  const site = new Site();
  site.api.remove("addressblocks//default-1");
  site.putRequest("refused", "n1", { isRefused: true });
  site.inBetween = () => site.putRequest("refused", "n1", { isRefused: true });
  const [outcome] = await site.repair();
  assert.match(`${outcome}`, /^BlockRequest refused: /);
});
