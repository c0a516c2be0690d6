/**
 * Runs a node through random histories, step by step: pods come and go, calls to the API server are answered late,
 * twice, or never, the daemon is killed and started, blocks are deleted and marked by hand, the watch lags behind. A
 * small model of the world says after every step what must hold.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { parseReserved } from "../../api/mod.ts";
import { Address, valuesOf } from "../../inet/mod.ts";
import type { Allocation, Releasing } from "./allocations.ts";
import { OutOfBlocksError } from "../base/errors.ts";
import { NodeIpam } from "./ipam.ts";
import type { BlockInfo, KernelPod, RestingAddress } from "../base/ports.ts";
import {
  FakeBlockSource,
  FakeCluster,
  FakeRoutes,
  type PendingCall,
} from "../testing.ts";
import { FakeClock, settle } from "../../async/testing.ts";

const NODE = "node1";
const KEYS = 14;
const STRICT_MS = 3_000;
const never = new AbortController().signal;

/** An ADD between its allocation and the pod's interface. */
interface Granted {
  readonly allocation: Allocation;
}

/** A DEL between its beginning and its end. */
interface Deletion {
  readonly releasing: Releasing;
  torndown: boolean;
}

/** What really is, as opposed to what the node believes. */
class World {
  readonly cluster = new FakeCluster();
  readonly clock = new FakeClock();
  /** The node's interfaces by container. */
  readonly kernel = new Map<string, KernelPod>();
  /** Addresses given to ADDs that have not made an interface yet. */
  granted: Granted[] = [];
  adds = new Set<AbortController>();
  deletions: Deletion[] = [];
  /** UIDs of blocks that somebody took from the node by force: no promise holds for their addresses. */
  readonly robbed = new Set<string>();
  /** The block that each container's address is from, by UID. */
  readonly origin = new Map<string, string | undefined>();
  /** Requests that outlive the process that made them. */
  orphans: PendingCall[] = [];
  /** UIDs of blocks of which the watch has told the node that they are going or gone. */
  readonly forbidden = new Set<string>();
  readonly #shown = new Set<string>();
  /** A list of the kernel's pods, made some time ago. */
  survey: { readonly at: number; readonly pods: KernelPod[] } | undefined;
  readonly feeds: BlockInfo[][] = [[]];
  /** When an address was freed, and the UID of its block then. */
  readonly freed = new Map<string, { at: number; uid: string | undefined }>();
  readonly isStrict: boolean;
  source: FakeBlockSource;
  routes = new FakeRoutes();
  ipam: NodeIpam;
  /** Allocations that succeeded; says whether a history was of any use. */
  successes = 0;
  /** What an answer that came between two steps showed to be wrong. */
  failure: unknown;

  constructor(isStrict: boolean) {
    this.isStrict = isStrict;
    this.source = this.makeSource();
    this.ipam = this.make();
    this.cluster.addPool(
      "a",
      2,
      "10.0.0.0/29 fd00::/125",
      "10.0.1.0/30 fd00::100/126",
    );
    this.cluster.addPool("b", 0, "10.1.0.0/30");
    this.cluster.addPool("c", 4, "fd01::ffff:ffff:ffff:ffc0/122");
  }

  makeSource(): FakeBlockSource {
    const source = new FakeBlockSource(this.cluster, NODE);
    if (this.isStrict) source.releaseGroup = ({ pool }) => pool;
    return source;
  }

  make(): NodeIpam {
    return new NodeIpam({
      source: this.source,
      routes: this.routes,
      clock: this.clock,
      returnDelayMs: 2_000,
      ...this.isStrict
        ? { rest: "strict", cooldownMs: STRICT_MS }
        : { cooldownMs: this.clock.nowMs() % 3 === 0 ? 1_000 : 0 },
      onFreed: (addresses) => this.noteFreed(valuesOf(addresses)),
    });
  }

  noteFreed(addresses: readonly Address[]): void {
    for (const address of addresses) {
      const block = this.cluster.of(NODE).find(({ prefixes }) =>
        prefixes[address.family]?.contains(address)
      );
      this.freed.set(`${address}`, { at: this.clock.nowMs(), uid: block?.uid });
    }
  }

  /** What a role would have kept somewhere. */
  resting(): RestingAddress[] {
    return [...this.freed].map(([text, { at }]) => ({
      address: Address.parse(text),
      restedMs: this.clock.nowMs() - at,
    }));
  }

  pods(): KernelPod[] {
    return [...this.kernel.values()];
  }

  /** Kills the daemon; some of what it had asked of the API server is still done. */
  async restart(pick: number): Promise<void> {
    for (const [i, call] of [...this.source.pending].entries()) {
      if ((pick >> i) & 1) call.perform();
      else if (call.kind === "request") this.orphans.push(call);
    }
    const old = this.ipam;
    this.granted = [];
    this.deletions = [];
    this.survey = undefined;
    this.#shown.clear();
    this.forbidden.clear();
    await old[Symbol.asyncDispose]();
    this.adds.clear();
    this.source = this.makeSource();
    this.routes = new FakeRoutes();
    this.ipam = this.make();
    const resting = this.isStrict ? this.resting() : [];
    await this.startAgain(pick >> 8, { signal: never, resting });
    this.source.mostBlocks = 1 + pick % 3;
    this.source.auto = false;
  }

  /** Pods that were half removed are husks now; some are removed before the first list is answered. */
  async startAgain(
    pick: number,
    options: Parameters<NodeIpam["start"]>[1],
  ): Promise<void> {
    this.source.auto = false;
    const pods = this.pods()
      .map((pod, i) => ({ ...pod, husk: ((pick >> i) & 1) === 1 }));
    const started = this.ipam.start(pods, options);
    await settle();
    for (const { containerId, husk } of pods) {
      if (husk) this.beginRelease(containerId);
    }
    for (let n = 0; n < 2 * (pick % 4); n++) this.advanceDeletion(n);
    this.source.auto = true;
    for (const call of this.source.pending) call.answer();
    await started;
  }

  add(key: string, pool: string): void {
    const controller = new AbortController();
    this.adds.add(controller);
    const { ipam } = this;
    const request = { pool, containerId: key, ifname: "eth0" };
    ipam.allocate(request, { signal: controller.signal }).then(
      (allocation) => {
        if (ipam === this.ipam) this.receive(allocation);
      },
      () => {}, // refused, timed out or ended: all are allowed here
    ).catch((error) => this.failure ??= error).finally(() => {
      this.adds.delete(controller);
    });
  }

  receive(allocation: Allocation): void {
    this.successes++;
    const { containerId, existing } = allocation;
    if (!existing) {
      const block = this.ipam.blocks().find(({ name }) =>
        name === allocation.block
      );
      this.origin.set(containerId, block?.uid);
      assert.ok(block, "an address comes from a block that the node holds");
      assert.ok(!this.forbidden.has(block.uid), `${block.name} is going`);
      const state = this.source.poolState(allocation.pool);
      assert.notEqual(state, "deleting", "a pool that goes gives nothing");
      for (const address of valuesOf(allocation.addresses)) {
        const isReserved = this.source.reserved(allocation.pool)
          .some((range) => range.contains(address));
        assert.ok(!isReserved, `${address} is reserved`);
        const freed = this.freed.get(`${address}`);
        const isSame: boolean = this.isStrict && freed?.uid === block.uid;
        const restedMs = this.clock.nowMs() - (freed?.at ?? -Infinity);
        assert.ok(!isSame || restedMs >= STRICT_MS, `${address} has to rest`);
      }
    }
    this.granted.push({ allocation });
    const pod = this.kernel.get(containerId);
    if (pod !== undefined) {
      assert.deepEqual(
        valuesOf(pod.addresses).map(String),
        valuesOf(allocation.addresses).map(String),
        "a pod that lives keeps its address",
      );
    }
  }

  /** The ADD makes the interface. */
  setup(pick: number): void {
    const [granted] = this.granted.splice(pick % (this.granted.length || 1), 1);
    if (granted === undefined) return;
    const { containerId, ifname, pool, addresses } = granted.allocation;
    this.kernel.set(containerId, { containerId, ifname, pool, addresses });
  }

  /** A DEL begins; as in the daemon, not while an ADD of the key is at work in the kernel. */
  beginRelease(key: string): void {
    const isLocked = this.granted.some(({ allocation }) =>
      allocation.containerId === key
    );
    if (isLocked) return;
    const releasing = this.ipam.beginRelease({
      containerId: key,
      ifname: "eth0",
    });
    if (releasing !== undefined) {
      this.deletions.push({ releasing, torndown: false });
    } else assert.ok(!this.kernel.has(key), "a living pod is known");
  }

  advanceDeletion(pick: number): void {
    const deletion = this.deletions[pick % (this.deletions.length || 1)];
    if (deletion === undefined) return;
    const { releasing } = deletion;
    const drop = () =>
      this.deletions = this.deletions.filter((d) => d !== deletion);
    const key = releasing.containerId;
    if (!deletion.torndown) {
      // Another DEL may have ended this release, and an ADD of the key may be at work again.
      const isOver = this.ipam.lookup(releasing)?.generation !==
        releasing.generation;
      if (isOver) return void drop();
      if (pick % 7 === 0) {
        this.ipam.cancelRelease(releasing);
        return void drop();
      }
      this.kernel.delete(key);
      deletion.torndown = true;
      return;
    }
    if (
      this.kernel.has(key) || this.ipam.lookup(releasing)?.state !== "releasing"
    ) {
      // The late end of a DEL that was overtaken must do nothing.
      const before = JSON.stringify(this.ipam.lookup(releasing)?.addresses);
      this.ipam.finishRelease(releasing);
      const after = this.ipam.lookup(releasing);
      if (this.kernel.has(key)) {
        assert.equal(JSON.stringify(after?.addresses), before);
      }
      return void drop();
    }
    this.ipam.finishRelease(releasing);
    // One in three DELs is repeated with the same token later.
    if (pick % 3 !== 0) drop();
  }

  /** The watch shows the node's blocks, as they are or as they were. */
  feed(age: number): void {
    const blocks = this.feeds.at(-1 - age) ?? [];
    const uids = new Set(blocks.map(({ uid }) => uid));
    for (const uid of this.#shown) {
      if (!uids.has(uid) && age === 0) this.forbidden.add(uid);
    }
    for (const { uid, deleting } of blocks) {
      this.#shown.add(uid);
      if (deleting) this.forbidden.add(uid);
    }
    this.ipam.onBlocksChanged(blocks);
  }

  /** Reconciles with a list of pods that may be some seconds old. */
  audit(): void {
    const isOld = this.clock.nowMs() - (this.survey?.at ?? -Infinity) > 20_000;
    const pods = isOld ? this.pods() : this.survey?.pods ?? [];
    // What goes wrong with the list of blocks is in the report.
    void this.ipam.reconcile(pods, { signal: never });
  }

  rob(pick: number): void {
    const blocks = this.cluster.of(NODE);
    const block = blocks[pick % (blocks.length || 1)];
    if (block === undefined) return;
    this.robbed.add(block.uid);
    this.cluster.remove(block);
  }

  /** What must hold at any time. */
  check(): void {
    if (this.failure !== undefined) throw this.failure;
    for (const { pool, free } of this.ipam.stats()) {
      const counted = this.ipam.blocks().filter((block) =>
        block.pool === pool &&
        block.holds.every((hold) => /^un(exported|confirmed)$/.test(hold))
      ).reduce((sum, block) => sum + block.free, 0);
      assert.equal(free, counted, `pool ${pool} is counted`);
    }
    for (const { state, containerId } of this.ipam.list()) {
      if (state !== "quarantined") continue;
      const origin = this.origin.get(containerId) ?? "";
      assert.ok(this.robbed.has(origin), `${containerId} is in quarantine`);
    }
    const owners = new Map<string, string>();
    const live: { key: string; addresses: KernelPod["addresses"] }[] = [
      ...this.pods().map((p) => ({
        key: p.containerId,
        addresses: p.addresses,
      })),
      ...this.granted.map(({ allocation: a }) => ({
        key: a.containerId,
        addresses: a.addresses,
      })),
    ];
    const blocks = this.cluster.of(NODE);
    for (const { key, addresses } of live) {
      for (const address of valuesOf(addresses)) {
        const text = address.toString();
        const owner = owners.get(text) ?? key;
        assert.equal(owner, key, `${text} has two owners`);
        owners.set(text, key);
        const origin = this.origin.get(key);
        if (origin === undefined || this.robbed.has(origin)) continue;
        const covered = blocks.some(({ uid, prefixes }) =>
          uid === origin && prefixes[address.family]?.contains(address)
        );
        assert.ok(covered, `${text} of ${key} is in no block of the node`);
      }
    }
  }

  /** Everything answers again: all must come right by itself. */
  async heal(): Promise<void> {
    for (const pool of this.cluster.pools.values()) pool.state = "ready";
    this.source.auto = true;
    this.source.deaf = false;
    this.source.mostBlocks ||= 1;
    for (const call of [...this.source.pending]) call.answer();
    for (const orphan of this.orphans.splice(0)) orphan.perform();
    await this.clock.advance(12_000);
    assert.equal(this.adds.size, 0, "no ADD waits for ever");
    while (this.granted.length > 0) this.setup(0);
    await this.patiently(this.reconcile());
    this.check();
    const names = (blocks: readonly { name: string }[]) =>
      blocks.map(({ name }) => name).sort();
    await this.clock.advance(200_000);
    await this.reconcile();
    await this.clock.advance(1_000);
    assert.deepEqual(
      names(this.ipam.blocks()),
      names(this.cluster.of(NODE)),
      "no block is lost",
    );
    await this.checkLiveness();
    await this.checkDrain();
  }

  async reconcile(): Promise<void> {
    this.ipam.onBlocksChanged(this.cluster.of(NODE));
    await this.ipam.reconcile(this.pods(), { signal: never });
    await settle();
  }

  /** Lets time pass until the promise has its value or its error. */
  async patiently<T>(promise: Promise<T>): Promise<T | Error> {
    let outcome: { readonly value: T | Error } | undefined;
    promise.then(
      (value) => outcome = { value },
      (error) => outcome = { value: error },
    );
    for (let i = 0; i < 700 && outcome === undefined; i++) {
      await this.clock.advance(i === 0 ? 1 : 100);
    }
    assert.ok(outcome !== undefined, "nothing takes for ever");
    return outcome.value;
  }

  /** With room somewhere an ADD succeeds. */
  async checkLiveness(): Promise<void> {
    for (const [pool, limit] of [["a", 12], ["b", 4], ["c", 64]] as const) {
      const given = new Set<string>();
      for (let i = 0; i < limit; i++) {
        const containerId = `new-${pool}-${i}`;
        const request = { pool, containerId, ifname: "eth0" };
        const outcome = await this.patiently(this.ipam.allocate(request));
        if (outcome instanceof Error) break;
        given.add(containerId);
        this.receive(outcome);
        this.setup(0);
        this.check();
      }
      const usable = this.ipam.blocks().filter((b) =>
        b.pool === pool && !b.holds.some((h) => h !== "unexported")
      );
      const isFull = usable.every((block) => block.free === 0);
      assert.ok(isFull, `pool ${pool}: ADD failed although there is room`);
      assert.throws(
        () => this.cluster.allocate(pool, "probe"),
        OutOfBlocksError,
        `pool ${pool}: ADD failed although a block is free`,
      );
    }
  }

  /** When all pods are gone, so are all blocks, and nothing is announced any more. */
  async checkDrain(): Promise<void> {
    for (const pod of this.pods()) {
      const releasing = this.ipam.beginRelease(pod);
      assert.ok(releasing, "a living pod is known");
      this.kernel.delete(pod.containerId);
      await this.ipam.finishRelease(releasing);
    }
    await this.clock.advance(10 * 60_000);
    await this.reconcile();
    await this.clock.advance(10 * 60_000);
    await this.reconcile();
    await this.clock.advance(10_000);
    assert.deepEqual(this.ipam.list(), []);
    assert.deepEqual(this.cluster.of(NODE).map((b) => b.name), []);
    assert.deepEqual(this.routes.prefixes, []);
  }
}

/** What admins reserve, of one family or both, parts of blocks and whole ones. */
const RESERVED: readonly (readonly [string, readonly string[]])[] = [
  ["a", []],
  ["a", ["10.0.0.1", "fd00::2-fd00::5", "10.0.1.0/30"]],
  ["a", ["10.0.0.0/29", "10.0.1.3"]],
  ["b", []],
  ["b", ["10.1.0.1-10.1.0.2"]],
  ["c", []],
  ["c", ["fd01::ffff:ffff:ffff:ffd8-fd01::ffff:ffff:ffff:fff1"]],
];

type Action = (world: World, pick: number) => void | Promise<void>;

/** Some containers are busier than others, so that ADDs and DELs of one meet. */
function keyOf(pick: number): string {
  return `c${pick % (pick % 5 < 2 ? 3 : KEYS)}`;
}

const ACTIONS: Record<string, { weight: number; run: Action }> = {
  add: {
    weight: 16,
    run: (w, pick) => w.add(keyOf(pick), ["a", "b", "c"][pick % 3] ?? "a"),
  },
  setup: { weight: 12, run: (w, pick) => w.setup(pick) },
  abort: {
    weight: 2,
    run: (w, pick) => [...w.adds].at(pick % (w.adds.size || 1))?.abort(),
  },
  del: { weight: 8, run: (w, pick) => w.beginRelease(keyOf(pick)) },
  advanceDel: { weight: 14, run: (w, pick) => w.advanceDeletion(pick) },
  answer: {
    weight: 14,
    run: (w, pick) =>
      [...w.source.pending].at(pick % (w.source.pending.size || 1))?.answer(),
  },
  perform: {
    weight: 3,
    run: (w, pick) =>
      [...w.source.pending].at(pick % (w.source.pending.size || 1))?.perform(),
  },
  fail: {
    weight: 4,
    run: (w, pick) =>
      [...w.source.pending].at(pick % (w.source.pending.size || 1))
        ?.fail(new Error("the API server is away")),
  },
  deaf: { weight: 1, run: (w, pick) => void (w.source.deaf = pick % 2 === 0) },
  mostBlocks: {
    weight: 1,
    run: (w, pick) => void (w.source.mostBlocks = pick % 4),
  },
  auto: { weight: 1, run: (w, pick) => void (w.source.auto = pick % 2 === 0) },
  wait: { weight: 8, run: (w, pick) => w.clock.advance(pick % 900) },
  waitLong: {
    weight: 2,
    run: async (w, pick) => {
      const ms = [3_000, 11_000, 61_000, 400_000][pick % 4] ?? 0;
      // No ADD takes as long as the grace period.
      while (ms > 60_000 && w.granted.length > 0) w.setup(0);
      await w.clock.advance(ms);
      while (ms > 60_000 && w.granted.length > 0) w.setup(0);
    },
  },
  feed: {
    weight: 4,
    run: (w, pick) => {
      w.feeds.push(w.cluster.of(NODE));
      // One watch in four lags behind, or jumps back.
      w.feed(pick % 4 === 0 ? pick % 5 : 0);
    },
  },
  survey: {
    weight: 3,
    run: (w) => void (w.survey = { at: w.clock.nowMs(), pods: w.pods() }),
  },
  audit: { weight: 3, run: (w) => w.audit() },
  restart: { weight: 1, run: (w, pick) => w.restart(pick) },
  orphan: { weight: 1, run: (w) => w.orphans.shift()?.perform() },
  rob: { weight: 1, run: (w, pick) => w.rob(pick) },
  mark: {
    weight: 1,
    run: (w, pick) => {
      const blocks = w.cluster.of(NODE);
      const name = blocks[pick % (blocks.length || 1)]?.name ?? "";
      w.cluster.edit(name, { deleting: true });
    },
  },
  neighbour: {
    weight: 2,
    run: (w, pick) => {
      const theirs = w.cluster.of("node2");
      const block = theirs[pick % (theirs.length || 1)];
      if (pick % 2 && block) w.cluster.remove(block);
      else if (theirs.length < 3) {
        w.cluster.allocate(pick % 3 ? "a" : "b", "node2");
      }
    },
  },
  pool: {
    weight: 1,
    run: (w, pick) => {
      const pool = w.cluster.pools.get(["a", "b", "c"][pick % 3] ?? "a");
      if (pool) pool.state = pick % 2 ? "deleting" : "ready";
      w.ipam.onPoolsChanged();
    },
  },
  reserve: {
    weight: 2,
    run: (w, pick) => {
      const [name, entries] = RESERVED[pick % RESERVED.length] ?? ["a", []];
      const pool = w.cluster.pools.get(name);
      if (pool) pool.reserved = parseReserved(entries);
      w.ipam.onPoolsChanged();
    },
  },
  exportFails: {
    weight: 1,
    run: (w) => void w.routes.failures.push(new Error("EBUSY")),
  },
};

const history = fc.array(
  fc.record({
    name: fc.oneof(
      ...Object.entries(ACTIONS).map(([name, { weight }]) => ({
        weight,
        arbitrary: fc.constant(name),
      })),
    ),
    pick: fc.nat(),
  }),
  { minLength: 1, maxLength: 400, size: "max" },
);

/** More with COIL_MODEL_RUNS. */
const RUNS = Number(Deno.env.get("COIL_MODEL_RUNS") ?? "550");

Deno.test("no history loses, doubles or frees an address, and all comes right in the end", async () => {
  let steps = 0;
  let successes = 0;
  await fc.assert(
    fc.asyncProperty(fc.boolean(), history, async (isStrict, actions) => {
      const world = new World(isStrict);
      await world.ipam.start([], { signal: never });
      world.source.auto = false;
      try {
        for (const { name, pick } of actions) {
          try {
            await ACTIONS[name]?.run(world, pick);
          } catch (error) {
            if (error instanceof Error && error.name === "OutOfBlocksError") {
              continue;
            }
            throw error;
          }
          await settle();
          world.check();
          steps++;
        }
        await world.heal();
        successes += world.successes;
      } finally {
        await world.ipam[Symbol.asyncDispose]();
      }
    }),
    { numRuns: RUNS },
  );
  assert.ok(successes > RUNS * 20, `only ${successes} ADDs in ${steps} steps`);
});
