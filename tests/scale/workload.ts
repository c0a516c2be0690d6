// Pods of a cluster that come and go: the same for the table's nodes and for
// those with the product's own code.
import type { Random } from "../faults/random.ts";
import type { SimClock } from "./clock.ts";
import { type ClusterSize, LIFE_MS } from "./size.ts";

const MAX_PODS = 110;

/** What pods run on. */
export interface PodHost {
  readonly isUp: boolean;
  readonly pods: Set<Pod<PodHost>>;
}

/** A pod that runs. */
export interface Pod<N> {
  /** Of all that were started. */
  readonly number: number;
  readonly node: N;
  readonly poolIndex: number;
  readonly isClient: boolean;
  /** Its place among all. */
  at: number;
}

/** What a workload needs. */
export interface WorkloadParts<N extends PodHost> {
  readonly size: ClusterSize;
  readonly clock: SimClock;
  readonly random: Random;
  readonly nodes: readonly N[];
  /** A pod starts on a node; false if it cannot. */
  readonly onStart: (pod: Pod<N>) => boolean;
  /** A pod has ended, and is no longer on its node. */
  readonly onEnd: (pod: Pod<N>) => void;
}

/** Starts pods at the pace at which they end. */
export class Workload<N extends PodHost> {
  /** How many times as many pods start as end. */
  rush = 1;
  readonly #with: WorkloadParts<N>;
  readonly #pods: Pod<N>[] = [];
  #started = 0;

  constructor(parts: WorkloadParts<N>) {
    this.#with = parts;
  }

  /** Pods that run. */
  get count(): number {
    return this.#pods.length;
  }

  /** Starts a pod on a node that is up and has room. */
  start(): void {
    const { size, random, clock, onStart } = this.#with;
    const node = this.#pickNode();
    if (node === undefined) return;
    // The first pool has half of the pods, so a node has some ten blocks.
    const poolIndex = Math.floor(size.pools * random.next() ** 4);
    const isClient = random.chance(size.clients / size.pods);
    const number = this.#started++;
    const pod = { number, node, poolIndex, isClient, at: this.#pods.length };
    this.#pods.push(pod);
    node.pods.add(pod);
    if (!onStart(pod)) {
      this.remove(pod);
      return;
    }
    const lifeMs = -Math.log(1 - random.next()) * LIFE_MS;
    clock.after(lifeMs, () => this.#end(pod));
  }

  /** A pod is replaced by another, as in the rollout of a Deployment. */
  replace(): void {
    if (this.count === 0) return;
    this.#end(this.#with.random.pick(this.#pods));
    this.start();
  }

  /** Starts as many as are due in a second, at any time of it. */
  startSecond(): void {
    const { size, clock, random } = this.#with;
    const perS = this.rush * 1000 * size.pods / LIFE_MS;
    const starts = Math.floor(perS + random.next());
    for (let i = 0; i < starts; i++) {
      clock.after(1000 * random.next(), () => this.start());
    }
  }

  /** A pod is gone, without an end of its own. */
  remove(pod: Pod<N>): void {
    pod.node.pods.delete(pod);
    const last = this.#pods.pop();
    if (last === undefined || last === pod) return;
    last.at = pod.at;
    this.#pods[pod.at] = last;
  }

  #end(pod: Pod<N>): void {
    // It was lost with its node, or replaced.
    if (!pod.node.pods.has(pod)) return;
    this.remove(pod);
    this.#with.onEnd(pod);
  }

  #pickNode(): N | undefined {
    const { random, nodes } = this.#with;
    for (let tries = 0; tries < 20; tries++) {
      const node = random.pick(nodes);
      if (node.isUp && node.pods.size < MAX_PODS) return node;
    }
    return undefined;
  }
}
