// A cluster as the API server sees it: nodes with blocks, pods that come and go,
// and daemons that ask and watch by the table of patterns.
import { Backoff } from "../../lib/async/mod.ts";
import type { Random } from "../faults/random.ts";
import type { Clock } from "./clock.ts";
import type { ModelServer } from "./model_server.ts";
import type { Pattern, WatchKind } from "./patterns.ts";

/** How large it is. */
export interface ClusterSize {
  readonly nodes: number;
  readonly pods: number;
  readonly pools: number;
  readonly egresses: number;
  readonly gatewaysEach: number;
  /** Pods that use an Egress. */
  readonly clients: number;
}

/** What we promise. */
export const LARGE: ClusterSize = {
  nodes: 5_000,
  pods: 150_000,
  pools: 20,
  egresses: 200,
  gatewaysEach: 3,
  clients: 10_000,
};

const BLOCK_ADDRESSES = 32;
const MAX_PODS = 110;
/** Of a pod, on average: 30 of 150,000 end in a second. */
const LIFE_MS = 5_000_000;
/** kubelet reports a node's status at least this often. */
const HEARTBEAT_S = 300;
/** Writes of a pod's object by scheduler, kubelet and controllers. */
const POD_WRITES = { start: 5, end: 3 };
/** In bytes, as JSON; pods without managed fields are not to be had. */
const BYTES = {
  pods: 6_000,
  nodes: 10_000,
  namespaces: 500,
  addresspools: 2_000,
  addressblocks: 1_000,
  blockrequests: 1_000,
  egresses: 3_000,
  services: 1_500,
  endpointslices: 2_000,
  egressclientslices: 12_000,
} as const;
type Plural = keyof typeof BYTES;

/** A pool's blocks on a node. */
interface PoolOfNode {
  blocks: number;
  used: number;
  /** How often its last spare block has been taken into use. */
  uses: number;
}

/** A node and its daemons. */
export interface ModelNode {
  isUp: boolean;
  pods: number;
  readonly pools: PoolOfNode[];
}

/** What a cluster is made of. */
export interface ClusterParts {
  readonly size: ClusterSize;
  readonly pattern: Pattern;
  readonly clock: Clock;
  readonly server: ModelServer;
  readonly random: Random;
}

/** Counts up to now. */
export interface Totals {
  starts: number;
  obtained: number;
  givenBack: number;
}

/** The cluster; it begins with all its pods. */
export class Cluster {
  readonly nodes: ModelNode[] = [];
  readonly totals: Totals = { starts: 0, obtained: 0, givenBack: 0 };
  /** How many times as many pods start as end. */
  rush = 1;
  readonly #with: ClusterParts;
  readonly #pendingStatus = new Set<number>();
  /** Nodes that are up. */
  #up = 0;
  #pods = 0;
  #blocks = 0;
  /** Before the counting begins. */
  #isQuiet = true;

  constructor(parts: ClusterParts) {
    this.#with = parts;
    const { size, pattern, server } = parts;
    this.addNodes(size.nodes);
    server.open(pattern.controller, pattern.controllers);
    server.open(pattern.gateway, size.egresses * size.gatewaysEach);
    for (let i = 0; i < size.pods; i++) this.startPod();
    this.#isQuiet = false;
    this.#tick();
  }

  /** Pods that run. */
  get pods(): number {
    return this.#pods;
  }

  /** Blocks of all nodes. */
  get blocks(): number {
    return this.#blocks;
  }

  /** New nodes, whose daemons start. */
  addNodes(count: number): void {
    const { size: { pools } } = this.#with;
    for (let i = 0; i < count; i++) {
      const node = {
        isUp: false,
        pods: 0,
        pools: Array.from(
          { length: pools },
          () => ({ blocks: 0, used: 0, uses: 0 }),
        ),
      };
      this.nodes.push(node);
      this.startDaemons(node);
    }
  }

  /** A node's daemons start: they list and watch. */
  startDaemons(node: ModelNode): void {
    node.isUp = true;
    this.#up++;
    for (const kind of this.#kindsOfNode) this.#follow(kind);
  }

  /** A node goes, with all its pods; they start elsewhere. */
  loseNode(node: ModelNode): void {
    const { server } = this.#with;
    node.isUp = false;
    this.#up--;
    server.open(this.#kindsOfNode, -1);
    this.#pods -= node.pods;
    node.pods = 0;
    for (const pool of node.pools) pool.used = 0;
  }

  /** A node comes back without its pods; it gives its blocks back. */
  returnNode(node: ModelNode): void {
    this.startDaemons(node);
    node.pools.forEach((pool, i) => {
      for (let n = 0; n < pool.blocks; n++) this.#returnLater(node, i);
    });
  }

  /** Starts a pod on a node that is up and has room. */
  startPod(): void {
    const { size, random, clock } = this.#with;
    const node = this.#pickNode();
    if (node === undefined) return;
    // The first pool has half of the pods, so a node has some ten blocks.
    const poolIndex = Math.floor(size.pools * random.next() ** 4);
    const pool = node.pools[poolIndex];
    if (pool === undefined) return;
    const isClient = random.chance(size.clients / size.pods);
    node.pods++;
    this.#pods++;
    if (!this.#isQuiet) this.totals.starts++;
    this.#podEvents(POD_WRITES.start, { isClient, slices: 2 });
    const wasSpare = isSpare(pool);
    if (++pool.used > pool.blocks * BLOCK_ADDRESSES) {
      this.#obtain(pool, poolIndex);
    } else if (wasSpare && !isSpare(pool)) pool.uses++;
    const lifeMs = -Math.log(1 - random.next()) * LIFE_MS;
    clock.after(lifeMs, () => {
      // It was lost with its node.
      if (pool.used === 0) return;
      node.pods--;
      this.#pods--;
      pool.used--;
      this.#podEvents(POD_WRITES.end, { isClient, slices: 1 });
      if (isSpare(pool)) this.#returnLater(node, poolIndex);
    });
  }

  /** The API server is away for so long; then each watch is opened again by its own backoff. */
  restartServer(awayMs: number): void {
    const { pattern, size, server } = this.#with;
    const { initialMs } = pattern.backoff;
    const again = (
      kinds: readonly WatchKind[],
      daemons: number,
      maxMs: number,
    ) => {
      server.open(kinds, -daemons);
      for (let i = 0; i < daemons; i++) {
        for (const kind of kinds) {
          this.#followAfter(kind, awayMs, { initialMs, maxMs });
        }
      }
    };
    again(pattern.coild, this.#up, pattern.backoff.maxMs);
    again(pattern.router, this.#up, 30_000);
    again(pattern.gateway, size.egresses * size.gatewaysEach, 30_000);
    again(pattern.controller, pattern.controllers, 30_000);
  }

  /** ADDs that a pool has no block for: each asks, is answered and deletes what it asked. */
  refuse(): void {
    const { server, pattern: { cycle } } = this.#with;
    const { blockrequests } = cycle.writes.obtain;
    server.get(cycle.reads.obtain);
    server.write("blockrequests", {
      bytes: BYTES.blockrequests,
      wanted: 1,
      times: blockrequests,
    });
  }

  get #kindsOfNode(): readonly WatchKind[] {
    const { coild, router } = this.#with.pattern;
    return [...coild, ...router];
  }

  #pickNode(): ModelNode | undefined {
    const { random } = this.#with;
    for (let tries = 0; tries < 20; tries++) {
      const node = random.pick(this.nodes);
      if (node.isUp && node.pods < MAX_PODS) return node;
    }
    return undefined;
  }

  #podEvents(
    times: number,
    { isClient, slices }: {
      readonly isClient: boolean;
      readonly slices: number;
    },
  ): void {
    if (this.#isQuiet) return;
    const { server, size, pattern } = this.#with;
    server.event("pods", { bytes: BYTES.pods, wanted: 1, times });
    const hasSlices = pattern.gateway.some(({ type }) =>
      type.plural === "egressclientslices"
    );
    if (!isClient || !hasSlices) return;
    server.write("egressclientslices", {
      bytes: BYTES.egressclientslices,
      wanted: size.gatewaysEach,
      times: slices,
    });
  }

  #obtain(pool: PoolOfNode, poolIndex: number): void {
    pool.blocks++;
    this.#blocks++;
    if (this.#isQuiet) return;
    const { server, pattern: { cycle } } = this.#with;
    this.totals.obtained++;
    server.get(cycle.reads.obtain);
    this.#writeAll(cycle.writes.obtain);
    this.#poolChanged(poolIndex);
  }

  #returnLater(node: ModelNode, poolIndex: number): void {
    const { clock, server, random, pattern } = this.#with;
    const { cycle, giveBack: { afterMs, jitter } } = pattern;
    const delayMs = afterMs * (1 + jitter * (random.next() - 0.5));
    const pool = node.pools[poolIndex];
    if (pool === undefined) return;
    const { uses } = pool;
    clock.after(delayMs, () => {
      if (!node.isUp || pool.uses !== uses || !isSpare(pool)) return;
      pool.blocks--;
      this.#blocks--;
      this.totals.givenBack++;
      server.get(cycle.reads.giveBack);
      this.#writeAll(cycle.writes.giveBack);
      this.#poolChanged(poolIndex);
    });
  }

  #writeAll(writes: Readonly<Partial<Record<Plural, number>>>): void {
    for (const [plural, times] of Object.entries(writes)) {
      const bytes = BYTES[plural as Plural];
      this.#with.server.write(plural, { bytes, wanted: 1, times });
    }
  }

  #poolChanged(poolIndex: number): void {
    const { clock, server, pattern } = this.#with;
    if (this.#pendingStatus.has(poolIndex)) return;
    this.#pendingStatus.add(poolIndex);
    clock.after(pattern.poolStatusMs, () => {
      this.#pendingStatus.delete(poolIndex);
      server.write("addresspools", { bytes: BYTES.addresspools });
    });
  }

  /** What goes on all the time; once a second. */
  #tick(): void {
    const { size, clock, server, random, pattern } = this.#with;
    server.setTime(clock.nowMs);
    server.upkeep({ bookmarkBytes: 200 });
    server.event("nodes", {
      bytes: BYTES.nodes,
      wanted: 1,
      times: this.#up / HEARTBEAT_S,
    });
    const { by, everyS } = pattern.look;
    const held = this.#blocks / this.nodes.length;
    if (by === "get") server.get(this.#up * held / everyS);
    else {
      const bytes = BYTES.addressblocks;
      const times = this.#up / everyS;
      server.list({ looked: this.#blocks, listed: held, bytes, times });
    }
    const perS = this.rush * 1000 * size.pods / LIFE_MS;
    const starts = Math.floor(perS + random.next());
    for (let i = 0; i < starts; i++) {
      clock.after(1000 * random.next(), () => this.startPod());
    }
    clock.after(1000, () => this.#tick());
  }

  /** Lists and watches. */
  #follow({ type, by }: WatchKind): void {
    const { server } = this.#with;
    if (!this.#isQuiet) {
      const plural = type.plural as Plural;
      const all = this.#countOf(plural);
      const listed = by === "all" ? all : all / this.nodes.length;
      const looked = by === "all" || by === "label" ? all : listed;
      server.list({ looked, listed, bytes: BYTES[plural] });
    }
    server.open([{ type, by }], 1);
  }

  #followAfter(
    kind: WatchKind,
    awayMs: number,
    delays: { readonly initialMs: number; readonly maxMs: number },
  ): void {
    const { random, clock } = this.#with;
    const backoff = new Backoff({ ...delays, random: () => random.next() });
    let atMs = 0;
    while (atMs < awayMs) atMs += backoff.nextMs();
    clock.after(atMs, () => {
      // What was seen last is too old for a server that has just started.
      this.#with.server.get();
      this.#follow(kind);
    });
  }

  #countOf(plural: Plural): number {
    const { size } = this.#with;
    const counts: Partial<Record<Plural, number>> = {
      pods: this.#pods,
      nodes: this.nodes.length,
      namespaces: 1_000,
      addresspools: size.pools,
      addressblocks: this.#blocks,
      egressclientslices: Math.max(size.egresses, size.clients / 100),
      egresses: size.egresses,
      services: size.egresses,
      endpointslices: size.egresses,
    };
    return counts[plural] ?? 0;
  }
}

/** Whether a whole block is free; which addresses its pods have is left out. */
function isSpare({ blocks, used }: PoolOfNode): boolean {
  return blocks * BLOCK_ADDRESSES - used >= BLOCK_ADDRESSES;
}
