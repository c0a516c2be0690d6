// A cluster as the API server sees it: nodes with blocks, pods that come and go,
// and daemons that ask and watch by the table of patterns.
import { Backoff } from "../../lib/async/mod.ts";
import type { Random } from "../faults/random.ts";
import type { SimClock } from "./clock.ts";
import { egressStatusesS } from "./egress_statuses.ts";
import type { ModelServer, Reading } from "./model_server.ts";
import type { Pattern, WatchKind } from "./patterns.ts";
import { Pools } from "./pools.ts";
import { RefusedNodes } from "./refused.ts";
import {
  HEARTBEAT_S,
  LEASE_MS,
  POD_WRITES,
  RESTART_MS,
  type Simulated,
  Totals,
} from "./simulated.ts";
import {
  BLOCK_ADDRESSES,
  BYTES,
  type ClusterSize,
  egressesOfNode,
  gatewaysOf,
  namespacesOfNode,
  objectsOf,
  type Plural,
  servedEgressesOf,
} from "./size.ts";
import { type Pod, Workload } from "./workload.ts";

/** So often a block of an ample pool is looked at that is empty. */
const LOOK_MS = 1_800_000;
/** One of a pool that is low goes after so long, or up to half of it sooner. */
const LOW_MS = 30_000;
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
  readonly pods: Set<ModelPod>;
  readonly pools: PoolOfNode[];
}

type ModelPod = Pod<ModelNode>;

/** What a cluster is made of. */
export interface ClusterParts {
  readonly size: ClusterSize;
  readonly pattern: Pattern;
  readonly clock: SimClock;
  readonly server: ModelServer;
  readonly random: Random;
}

/** The cluster; it begins with all its pods. */
export class Cluster implements Simulated<ModelNode> {
  readonly nodes: ModelNode[] = [];
  readonly totals: Totals = new Totals();
  readonly #with: ClusterParts;
  readonly #pendingStatus = new Set<number>();
  readonly #workload: Workload<ModelNode>;
  readonly #refused: RefusedNodes;
  /** Nodes that are up. */
  #up = 0;
  readonly #pools: Pools;
  /** Before the counting begins. */
  #isQuiet = true;

  constructor(parts: ClusterParts) {
    this.#with = parts;
    const { size, pattern, server } = parts;
    this.#refused = new RefusedNodes(parts, () => this.#refuse());
    this.#pools = new Pools(size);
    this.#workload = new Workload({
      ...parts,
      nodes: this.nodes,
      onStart: (pod) => this.#started(pod),
      onEnd: (pod) => this.#ended(pod),
    });
    this.addNodes(size.nodes);
    server.open(pattern.controller, pattern.controllers);
    server.open(pattern.gateway, gatewaysOf(size));
    for (let i = 0; i < size.pods; i++) this.#workload.start();
    this.#isQuiet = false;
    this.#tick();
  }

  get pods(): number {
    return this.#workload.count;
  }

  set rush(times: number) {
    this.#workload.rush = times;
  }

  get blocks(): number {
    return this.#pools.blocks;
  }

  addNodes(count: number): void {
    const { size: { pools } } = this.#with;
    for (let i = 0; i < count; i++) {
      const node = {
        isUp: false,
        pods: new Set<ModelPod>(),
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
    this.#startCoild();
    for (const kind of this.#with.pattern.router) this.#follow(kind);
  }

  replaceCoild(_node: ModelNode): void {
    const { clock, server } = this.#with;
    for (const [kind, times] of this.#kindsOfCoild) {
      server.open([kind], -times);
    }
    clock.after(RESTART_MS, () => this.#startCoild());
  }

  /** It asks for its blocks and its requests once, live, and follows the rest. */
  #startCoild(): void {
    const { server } = this.#with;
    if (!this.#isQuiet) {
      this.#listBlocks(1);
      server.list({ looked: 0, listed: 0, bytes: BYTES.blockrequests });
    }
    for (const [kind, times] of this.#kindsOfCoild) this.#follow(kind, times);
  }

  loseNode(node: ModelNode): void {
    const { server, pattern } = this.#with;
    node.isUp = false;
    this.#up--;
    for (const [kind, times] of this.#kindsOfCoild) {
      server.open([kind], -times);
    }
    server.open(pattern.router, -1);
    for (const pod of node.pods) {
      this.#workload.remove(pod);
      this.#free(pod);
    }
  }

  returnNode(node: ModelNode): void {
    this.startDaemons(node);
    node.pools.forEach((pool, i) => {
      for (let n = 0; n < pool.blocks; n++) this.#returnLater(node, i);
    });
  }

  replacePod(): void {
    this.#workload.replace();
  }

  /** False when it gets no address. */
  #started({ node, poolIndex, isClient }: ModelPod): boolean {
    const pool = node.pools[poolIndex];
    if (pool === undefined) return false;
    if (!this.#isQuiet) this.totals.starts++;
    this.#podEvents(POD_WRITES.start, { isClient, slices: 2 });
    const wasSpare = isSpare(pool);
    if (++pool.used > pool.blocks * BLOCK_ADDRESSES) {
      if (!this.#obtain(pool, poolIndex)) {
        pool.used--;
        return false;
      }
    } else if (wasSpare && !isSpare(pool)) pool.uses++;
    this.#podsChanged(poolIndex);
    return true;
  }

  #ended(pod: ModelPod): void {
    const { node, poolIndex, isClient } = pod;
    this.#free(pod);
    this.#podsChanged(poolIndex);
    this.#podEvents(POD_WRITES.end, { isClient, slices: 1 });
    const pool = node.pools[poolIndex];
    if (pool !== undefined && isSpare(pool)) this.#returnLater(node, poolIndex);
  }

  #free({ node, poolIndex }: ModelPod): void {
    const pool = node.pools[poolIndex];
    if (pool !== undefined) pool.used--;
  }

  restartServer(awayMs: number): void {
    const { pattern, size, server } = this.#with;
    const { initialMs } = pattern.backoff;
    const again = (
      kinds: readonly WatchKind[],
      daemons: number,
      maxMs: number,
    ) => {
      server.open(kinds, -daemons);
      for (let left = daemons; left > 0; left--) {
        for (const kind of kinds) {
          const times = Math.min(1, left);
          this.#followAfter(kind, times, { awayMs, initialMs, maxMs });
        }
      }
    };
    const { maxMs } = pattern.backoff;
    again(pattern.coild, this.#up, maxMs);
    again(pattern.egress, this.#up * namespacesOfNode(this.#with.size), maxMs);
    again(pattern.router, this.#up, 30_000);
    again(pattern.gateway, gatewaysOf(size), 30_000);
    again(pattern.controller, pattern.controllers, 30_000);
  }

  /** A standby without caches reads all first. */
  failOver(): void {
    const { clock, server, pattern } = this.#with;
    const hasCaches = pattern.controllers > 1;
    server.open(pattern.controller, -1);
    clock.after(LEASE_MS, () => {
      server.get();
      if (!hasCaches) {
        for (const kind of pattern.controller) this.#follow(kind);
      }
    });
    // Deployments replace what was killed, and there it is the standby.
    clock.after(LEASE_MS + RESTART_MS, () => {
      if (hasCaches) {
        for (const kind of pattern.controller) this.#follow(kind);
      }
    });
  }

  startRefusing(_node: ModelNode, retryMs: number): void {
    this.#refused.start(retryMs);
  }

  /** A request for a block is made, answered and deleted. */
  #refuse(): void {
    const { server, pattern: { cycle } } = this.#with;
    const { blockrequests } = cycle.writes.obtain;
    this.totals.refused++;
    server.get(cycle.reads.refuse);
    server.write("blockrequests", {
      bytes: BYTES.blockrequests,
      wanted: 1,
      times: blockrequests,
    });
  }

  /** What each node's coild watches, and how often on average. */
  get #kindsOfCoild(): readonly (readonly [kind: WatchKind, times: number])[] {
    const { coild, egress } = this.#with.pattern;
    const times = namespacesOfNode(this.#with.size);
    return [
      ...coild.map((kind) => [kind, 1] as const),
      ...egress.map((kind) => [kind, times] as const),
    ];
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
    const hasSlices = pattern.controller.some(({ type }) =>
      type.plural === "egressclientslices"
    );
    if (!isClient || !hasSlices) return;
    server.write("egressclientslices", {
      bytes: BYTES.egressclientslices,
      wanted: pattern.gateway.length * size.gatewaysEach,
      times: slices,
    });
  }

  /** False: there is none. */
  #obtain(pool: PoolOfNode, poolIndex: number): boolean {
    if (this.#pools.isUsedUp(poolIndex)) {
      if (!this.#isQuiet) this.#refuse();
      return false;
    }
    pool.blocks++;
    this.#count(poolIndex, 1);
    if (this.#isQuiet) return true;
    const { server, pattern: { cycle } } = this.#with;
    this.totals.obtained++;
    server.get(cycle.reads.obtain);
    this.#writeAll(cycle.writes.obtain);
    this.#poolChanged(poolIndex);
    return true;
  }

  #returnLater(node: ModelNode, poolIndex: number): void {
    const { random, pattern: { giveBack } } = this.#with;
    const { afterMs, ampleMs, jitter } = giveBack;
    if (this.#pools.capacityOf(poolIndex) === "low") {
      const factor = 1 - jitter * random.next() / 2;
      this.#returnAfter(node, poolIndex, factor * Math.min(LOW_MS, afterMs));
    } else {
      const factor = 1 + jitter * (random.next() - 0.5);
      const [ms, leftMs] = [factor * afterMs, factor * (ampleMs - afterMs)];
      this.#returnAfter(node, poolIndex, ms, leftMs);
    }
  }

  /** A node's block goes back after so long if it is spare all the time, and so much later while its pool is ample. */
  #returnAfter(
    node: ModelNode,
    poolIndex: number,
    ms: number,
    leftMs: number = 0,
  ): void {
    const { clock, server, pattern: { cycle } } = this.#with;
    const pool = node.pools[poolIndex];
    if (pool === undefined) return;
    const { uses } = pool;
    clock.after(ms, () => {
      if (!node.isUp || pool.uses !== uses || !isSpare(pool)) return;
      if (this.#pools.capacityOf(poolIndex) === "ample" && leftMs > 0) {
        const nextMs = Math.min(LOOK_MS, leftMs);
        this.#returnAfter(node, poolIndex, nextMs, leftMs - nextMs);
        return;
      }
      pool.blocks--;
      this.#count(poolIndex, -1);
      this.totals.givenBack++;
      server.get(cycle.reads.giveBack);
      this.#writeAll(cycle.writes.giveBack);
      this.#poolChanged(poolIndex);
    });
  }

  /** Nodes hold so many blocks of the pool more. When it becomes low, all spare ones go. */
  #count(poolIndex: number, more: number): void {
    if (!this.#pools.count(poolIndex, more)) return;
    const { random } = this.#with;
    for (const node of this.nodes) {
      const pool = node.pools[poolIndex];
      if (pool !== undefined && isSpare(pool)) {
        this.#returnAfter(node, poolIndex, LOW_MS * random.next());
      }
    }
  }

  #writeAll(writes: Readonly<Partial<Record<Plural, number>>>): void {
    for (const [plural, times] of Object.entries(writes)) {
      const bytes = BYTES[plural as Plural];
      this.#with.server.write(plural, { bytes, wanted: 1, times });
    }
  }

  /** Pods have other addresses of the pool. */
  #podsChanged(poolIndex: number): void {
    const { countsPods } = this.#with.pattern.poolStatus;
    if (countsPods && !this.#isQuiet) this.#poolChanged(poolIndex);
  }

  #poolChanged(poolIndex: number): void {
    const { clock, server, pattern } = this.#with;
    if (this.#pendingStatus.has(poolIndex)) return;
    this.#pendingStatus.add(poolIndex);
    clock.after(pattern.poolStatus.afterMs, () => {
      this.#pendingStatus.delete(poolIndex);
      server.write("addresspools", { bytes: BYTES.addresspools });
      if (pattern.forgetsRefusals) this.#refused.forget();
    });
  }

  /** What goes on all the time; once a second. */
  #tick(): void {
    const { size, clock, server, pattern } = this.#with;
    server.setTime(clock.nowMs);
    server.upkeep();
    server.event("nodes", {
      bytes: BYTES.nodes,
      wanted: 1,
      times: this.#up / HEARTBEAT_S,
    });
    const { look: { by, everyS }, listS, servicesS } = pattern;
    if (by === "get") {
      server.get(this.#up * this.blocks / this.nodes.length / everyS);
    } else this.#listBlocks(this.#up / everyS);
    if (listS !== undefined) this.#listBlocks(this.#up / listS);
    if (servicesS !== undefined) {
      server.get(this.#up * egressesOfNode(size) / servicesS);
    }
    this.#egressStatuses();
    if (pattern.lease !== undefined) this.#renew(pattern.lease);
    this.#workload.startSecond();
    clock.after(1000, () => this.#tick());
  }

  /** A second of the leases: the leader renews them, the standby asks. */
  #renew({ leases, renewS, waitS }: NonNullable<Pattern["lease"]>): void {
    const { server, pattern: { controllers } } = this.#with;
    const times = leases / renewS;
    server.write("leases", { bytes: BYTES.leases, times });
    server.get((controllers - 1) * leases / waitS);
  }

  /** Nodes list their blocks, by a label. */
  #listBlocks(times: number): void {
    this.#with.server.list({
      looked: this.blocks,
      listed: this.blocks / this.nodes.length,
      bytes: BYTES.addressblocks,
      times,
    });
  }

  #egressStatuses(): void {
    const { size, server, pattern } = this.#with;
    const { rush } = this.#workload;
    // Those who watch its namespace; who watches all is counted anyway.
    const share = namespacesOfNode(size) / size.egressNamespaces;
    server.write("egresses", {
      bytes: BYTES.egresses,
      wanted: pattern.egress.length > 0 ? share * this.#up : 0,
      times: egressStatusesS(size, pattern, { rush }),
    });
  }

  /** Watches, with all objects at the beginning, or lists and watches. */
  #follow({ type, by }: WatchKind, times = 1): void {
    const { server, pattern } = this.#with;
    if (!this.#isQuiet) {
      const reading = { ...this.#readingOf({ type, by }), times };
      if (pattern.streams) server.read(reading);
      else server.list(reading);
    }
    server.open([{ type, by }], times);
  }

  #readingOf({ type, by }: WatchKind): Reading {
    const plural = type.plural as Plural;
    const { pods, blocks, nodes: { length: nodes } } = this;
    const all = objectsOf(this.#with.size, { pods, nodes, blocks })[plural] ??
      0;
    const parts: Partial<Record<WatchKind["by"], number>> = {
      all: 1,
      name: plural === "nodes" || plural === "clusterrolebindings" ? all : 1,
      namespace: plural === "egressclientslices"
        ? servedEgressesOf(this.#with.size)
        : this.#with.size.egressNamespaces,
    };
    const listed = all / (parts[by] ?? nodes);
    const looked = by === "label" ? all : listed;
    return { looked, listed, bytes: BYTES[plural] };
  }

  #followAfter(
    kind: WatchKind,
    times: number,
    { awayMs, ...delays }: {
      readonly awayMs: number;
      readonly initialMs: number;
      readonly maxMs: number;
    },
  ): void {
    const { random, clock, server, pattern } = this.#with;
    const { jitter } = pattern.backoff;
    const backoff = new Backoff({
      ...delays,
      jitter,
      random: () => random.next(),
    });
    let atMs = 0;
    while (atMs < awayMs) atMs += backoff.nextMs();
    clock.after(atMs, () => {
      // What was seen last is too old for a server that has just started.
      server.get(times);
      this.#follow(kind, times);
    });
  }
}

/** Whether a whole block is free; which addresses its pods have is left out. */
function isSpare({ blocks, used }: PoolOfNode): boolean {
  return blocks * BLOCK_ADDRESSES - used >= BLOCK_ADDRESSES;
}
