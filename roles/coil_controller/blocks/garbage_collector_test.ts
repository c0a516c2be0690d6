import assert from "node:assert/strict";
import type { AddressBlock } from "../../../lib/api/mod.ts";
import { KubeClient, KubeMetrics, Store } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { NODE_LABEL } from "../../../lib/names/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { GarbageCollector } from "./garbage_collector.ts";
import { IpamMetrics } from "../ipam/metrics.ts";
import { FakeClock, untilStopped } from "../../../lib/async/testing.ts";

const NODE = "node1";
const BLOCK: AddressBlock = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressBlock",
  metadata: { name: "default-0", uid: "u", labels: { [NODE_LABEL]: NODE } },
  index: 0,
  ipv4: "10.0.0.0/27",
};

/** A collector with a grace time of 30 s, a node, and a block of it. */
class Site implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly registry = createRegistry();
  readonly collector: GarbageCollector;
  isNodeThere = true;
  /** Whether the node is in the list of all. */
  isListed = false;
  /** How often it was asked for by its name. */
  asked = 0;
  /** When the block was given up, in seconds. */
  releasedAt: number | undefined;
  /** The status with which the API server refuses to list Nodes. */
  listRefusal: number | undefined;
  /** The status with which it refuses to delete blocks. */
  releaseRefusal = 404;
  /** Blocks whose release failed. */
  readonly failures: string[] = [];
  /** When all Nodes were listed, in seconds. */
  readonly listedAt: number[] = [];
  /** The forms in which they were asked for. */
  readonly forms = new Set<string>();
  /** What the operator was told. */
  readonly told: string[] = [];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor() {
    const { registry } = this;
    const blocks = new Store<AddressBlock>({
      node: ({ metadata }) => [metadata.labels?.[NODE_LABEL] ?? ""],
    });
    for (let i = 0; i < 7; i++) {
      const metadata = { ...BLOCK.metadata, name: `default-${i}` };
      blocks.set(metadata.name, { ...BLOCK, metadata });
    }
    for (
      const [name, labels] of [["a", {}], ["b", { [NODE_LABEL]: "" }]] as const
    ) {
      blocks.set(name, { ...BLOCK, metadata: { name, uid: "u", labels } });
    }
    const transport = new FakeTransport(({ method, path, headers }) => {
      if (/\/nodes(\?|$)/.test(path)) {
        this.forms.add(new Headers(headers).get("accept") ?? "");
        this.listedAt.push(this.clock.nowMs() / 1000);
        if (this.listRefusal !== undefined) {
          return { status: this.listRefusal, body: {} };
        }
        const items = this.isListed ? [{ metadata: { name: NODE } }] : [];
        return { body: { metadata: { resourceVersion: "1" }, items } };
      }
      if (method === "GET") this.asked++;
      if (method === "GET" && this.isNodeThere) {
        return { body: { kind: "Node", metadata: { name: NODE } } };
      }
      if (method === "DELETE") this.releasedAt = this.clock.nowMs() / 1000;
      const status = method === "DELETE" ? this.releaseRefusal : 404;
      return { status, body: { kind: "Status" } };
    });
    this.collector = new GarbageCollector({
      client: new KubeClient(transport),
      blocks,
      metrics: new IpamMetrics(registry),
      kubeMetrics: new KubeMetrics(registry),
      reports: {
        released: (node, message) => this.told.push(`${node}: ${message}`),
        releaseFailed: ({ metadata }) =>
          this.failures.push(metadata.name ?? ""),
      },
      graceMs: 30_000,
      intervalMs: 3_600_000,
      clock: this.clock,
    });
    const { signal } = this.#stop;
    this.#running = untilStopped(this.collector.run(signal), signal);
  }

  async metric(name: string): Promise<string | undefined> {
    const line = new RegExp(`^coil_controller_gc_${name} (.*)$`, "m");
    return line.exec(await this.registry.metrics())?.[1];
  }

  /** Has it sweep at its interval of an hour. */
  async sweep(hours: number): Promise<void> {
    const { signal } = this.#stop;
    const sweeping = untilStopped(this.collector.runSweeps(signal), signal);
    for (let i = 0; i < hours * 60; i++) await this.clock.advance(60_000);
    this.#stop.abort();
    await sweeping;
  }

  async at(second: number, what: "goes" | "comes" | "nothing"): Promise<void> {
    await this.clock.advance(second * 1000 - this.clock.nowMs());
    if (what === "nothing") return;
    this.isNodeThere = what === "comes";
    if (this.isNodeThere) this.collector.nodeThere(NODE);
    else this.collector.nodeGone(NODE);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

Deno.test("blocks are released when their node has been missing for the grace time", async () => {
  await using site = new Site();
  await site.at(10, "goes");
  await site.at(39, "nothing");
  assert.equal(site.releasedAt, undefined);
  assert.deepEqual(site.told, []);
  await site.at(41, "nothing");
  assert.equal(site.releasedAt, 40);
  assert.deepEqual(site.told, [
    "node1: The Node is gone; 7 blocks were released: default-0, default-1, default-2, default-3, default-4 and 2 more",
  ]);
});

Deno.test("a Node that comes back and goes again has its grace time again", async () => {
  await using site = new Site();
  await site.at(0, "goes");
  await site.at(5, "comes");
  await site.at(25, "goes");
  await site.at(54, "nothing");
  assert.equal(site.releasedAt, undefined, "its pods still run");
  await site.at(56, "nothing");
  assert.equal(site.releasedAt, 55);
});

Deno.test("a look at everything does not lengthen the grace time of a node that is gone", async () => {
  await using site = new Site();
  await site.at(0, "goes");
  await site.at(20, "nothing");
  site.collector.check(NODE);
  await site.at(31, "nothing");
  assert.equal(site.releasedAt, 30);
});

Deno.test("a Node that is there keeps its blocks, however long ago it was missed", async () => {
  await using site = new Site();
  site.collector.check(NODE);
  await site.at(31, "nothing");
  assert.equal(site.releasedAt, undefined);
  await site.at(100, "goes");
  await site.at(129, "nothing");
  assert.equal(site.releasedAt, undefined);
  await site.at(131, "nothing");
  assert.equal(site.releasedAt, 130);
});

Deno.test("all Nodes are listed at the interval, and not when a controller begins to lead", async () => {
  await using site = new Site();
  await site.sweep(10);
  assert.ok((site.listedAt[0] ?? 0) >= 1800, `${site.listedAt}`);
  const hours = site.listedAt.map((at, i, all) =>
    (at - (all[i - 1] ?? 0)) / 3600
  );
  assert.ok(hours.length >= 6, "ten hours");
  // A fake minute is the least step.
  assert.ok(hours.every((h) => h >= 0.5 && h < 1.52), `${hours}`);
  assert.ok(new Set(hours).size > 1, "it has jitter");
  // Without images, conditions and the like.
  for (const form of site.forms) assert.match(form, /PartialObjectMetadata/);
});

Deno.test("a Node that is in the list of all is not asked for", async () => {
  await using site = new Site();
  site.isListed = true;
  await site.sweep(2);
  await site.at(8_000, "nothing");
  assert.ok(site.listedAt.length > 0);
  assert.equal(site.asked, 0);
});

Deno.test("a Node that came back has its grace time again, although its second deletion was not seen", async () => {
  await using site = new Site();
  await site.at(0, "goes");
  await site.at(5, "comes");
  await site.at(25, "nothing");
  site.isNodeThere = false;
  site.collector.check(NODE);
  await site.at(54, "nothing");
  assert.equal(site.releasedAt, undefined);
  await site.at(56, "nothing");
  assert.equal(site.releasedAt, 55);
});

Deno.test("a look at everything finds a node that went unseen, and no block without a node", async () => {
  await using site = new Site();
  site.isNodeThere = false;
  await site.sweep(2);
  assert.ok(site.releasedAt !== undefined, "released");
  const { length } = site.told;
  assert.ok(length > 0 && length <= site.listedAt.length, "once a look");
  assert.match(site.told[0] ?? "", /^node1: The Node is gone; 7 blocks were/);
  assert.equal(await site.metric("released_blocks_total"), `${7 * length}`);
  assert.equal(await site.metric("errors_total"), "0");
});

Deno.test("a look at everything that fails is counted, and comes again within two minutes", async () => {
  await using site = new Site();
  site.listRefusal = 403;
  await site.sweep(2);
  const [first = 0, second = 0] = site.listedAt;
  assert.ok(second - first <= 120, `${site.listedAt}`);
  assert.equal(await site.metric("errors_total"), `${site.listedAt.length}`);
});

Deno.test("a failed release of a block is reported, counted and retried", async () => {
  await using site = new Site();
  site.releaseRefusal = 403;
  await site.at(0, "goes");
  await site.at(30, "nothing");
  assert.equal(site.failures.length, 7);
  assert.equal(await site.metric("errors_total"), "7");
  assert.equal(await site.metric("released_blocks_total"), "0");
  assert.deepEqual(site.told, []);
  site.releaseRefusal = 404;
  await site.at(90, "nothing");
  assert.equal(site.told.length, 1);
});
