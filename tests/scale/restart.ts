// The only API server comes back, request by request: the watches of all coilds
// are opened again through the queues of API Priority and Fairness.
import { Backoff } from "../../lib/async/mod.ts";
import type { Random } from "../faults/random.ts";
import { SimClock } from "./clock.ts";
import type { Pattern, WatchKind } from "./patterns.ts";
import { type ClusterSize, namespacesOfNode } from "./size.ts";

/** Most seats that one request takes: 15 % of the level's own; so do kinds whose objects' size the server does not know yet. */
export const MOST_SEATS = 7;
/**
 * What a watch takes until it has sent all objects, measured by `deno task bench
 * --only scale.restart` with 1,000 namespaces and 30 pods of a node.
 */
const READS: Readonly<Record<string, Work>> = {
  namespaces: { cpuMs: 14.6, seats: MOST_SEATS },
  pods: { cpuMs: 5.9, seats: MOST_SEATS },
  nodes: { cpuMs: 0.4, seats: MOST_SEATS },
  addresspools: { cpuMs: 0.9, seats: MOST_SEATS },
  services: { cpuMs: 0.4, seats: MOST_SEATS },
  endpointslices: { cpuMs: 0.4, seats: MOST_SEATS },
};
const SMALL_READ: Work = { cpuMs: 0.4, seats: 1 };
/** A watch from a version that the server does not know. */
const EXPIRED: Work = { cpuMs: 0.5, seats: 1 };
/** The first request of a node opens its connection. */
const CONNECT_MS = 1.2;
/** An answer 429. */
const TURNED_AWAY_MS = 0.2;
/** The server asks those for this. */
const RETRY_AFTER_MS = 1_000;
/** deploy/policies/flow_control.yaml: one flow, four queues. */
export const QUEUED_AT_MOST: number = 4 * 1_500;
/** A request that has waited for so long is turned away. */
const WAIT_MS = 15_000;
/** Of the level: its own, and those of other levels when the server has looked at all of them again. */
export const SEATS = { nominal: 44, borrowed: 44, afterMs: 10_000 } as const;
/** Of the computation. */
const STEP_MS = 1;
const END_MS = 600_000;

interface Work {
  readonly cpuMs: number;
  readonly seats: number;
}

/** What is computed. */
export interface RestartOptions {
  readonly size: ClusterSize;
  readonly pattern: Pattern;
  /** Processors that the server has for these requests. */
  readonly cores: number;
  readonly awayMs: number;
  readonly random: Random;
}

/** What came out; times are from the server's end. */
export interface RestartOutcome {
  /** When each node's coild was in step, in order. */
  readonly stepMs: readonly number[];
  readonly requests: number;
  /** Answered 429. */
  readonly turnedAway: number;
  readonly cpuMs: number;
  /** The most requests that share the processors at the same time; those of other programs share them too. */
  readonly mostAtOnce: number;
}

interface Node {
  left: number;
  isConnected: boolean;
}

/** One watch of one node, until it is open again. */
interface Watch {
  readonly node: Node;
  readonly read: Work;
  readonly backoff: Backoff;
  isExpired: boolean;
  askedMs: number;
}

interface Running extends Work {
  leftMs: number;
  readonly watch: Watch;
}

/** Computes a restart. The same random numbers give the same outcome. */
export function computeRestart(options: RestartOptions): RestartOutcome {
  return new Restart(options).run();
}

class Restart {
  readonly #with: RestartOptions;
  readonly #clock = new SimClock();
  readonly #queue: Watch[] = [];
  #first = 0;
  #running: Running[] = [];
  #freeSeats: number = SEATS.nominal;
  readonly #stepMs: number[] = [];
  #requests = 0;
  #turnedAway = 0;
  #cpuMs = 0;
  #mostAtOnce = 0;
  /** For answers 429. */
  #debtMs = 0;

  constructor(options: RestartOptions) {
    this.#with = options;
    const { pattern, size, awayMs } = options;
    const namespaces = Math.round(namespacesOfNode(size));
    const kinds = [
      ...pattern.coild,
      ...Array.from({ length: namespaces }, () => pattern.egress).flat(),
    ];
    for (let i = 0; i < size.nodes; i++) {
      const node = { left: kinds.length, isConnected: false };
      for (const kind of kinds) this.#begin(node, kind);
    }
    this.#clock.after(awayMs + SEATS.afterMs, () => {
      this.#freeSeats += SEATS.borrowed;
    });
  }

  run(): RestartOutcome {
    const { size, awayMs } = this.#with;
    for (let ms = 0; ms < END_MS; ms += STEP_MS) {
      this.#clock.runUntil(ms);
      if (ms >= awayMs) this.#serve(ms);
      if (this.#stepMs.length === size.nodes) break;
    }
    return {
      stepMs: this.#stepMs,
      requests: this.#requests,
      turnedAway: this.#turnedAway,
      cpuMs: this.#cpuMs,
      mostAtOnce: this.#mostAtOnce,
    };
  }

  /** Attempts in vain come first. */
  #begin(node: Node, { type }: WatchKind): void {
    const { pattern, random, awayMs } = this.#with;
    const watch = {
      node,
      read: READS[type.plural] ?? SMALL_READ,
      backoff: new Backoff({
        ...pattern.backoff,
        random: () => random.next(),
      }),
      isExpired: true,
      askedMs: 0,
    };
    let atMs = 0;
    while (atMs < awayMs) atMs += watch.backoff.nextMs();
    this.#clock.after(atMs, () => this.#ask(watch));
  }

  #ask(watch: Watch): void {
    this.#requests++;
    watch.askedMs = this.#clock.nowMs;
    if (this.#queue.length - this.#first < QUEUED_AT_MOST) {
      this.#queue.push(watch);
    } else this.#turnAway(watch);
  }

  #turnAway(watch: Watch): void {
    this.#turnedAway++;
    this.#debtMs += TURNED_AWAY_MS;
    this.#clock.after(
      RETRY_AFTER_MS + watch.backoff.nextMs(),
      () => this.#ask(watch),
    );
  }

  /** One step of all that runs, which shares the processors. */
  #serve(nowMs: number): void {
    this.#startWaiting(nowMs);
    this.#mostAtOnce = Math.max(this.#mostAtOnce, this.#running.length);
    const { cores } = this.#with;
    let budgetMs = cores * STEP_MS;
    const paidMs = Math.min(budgetMs, this.#debtMs);
    this.#debtMs -= paidMs;
    budgetMs -= paidMs;
    this.#cpuMs += paidMs;
    const eachMs = Math.min(STEP_MS, budgetMs / (this.#running.length || 1));
    for (const running of this.#running) {
      running.leftMs -= eachMs;
      this.#cpuMs += eachMs;
    }
    const done = this.#running.filter(({ leftMs }) => leftMs <= 0);
    if (done.length === 0) return;
    this.#running = this.#running.filter(({ leftMs }) => leftMs > 0);
    for (const { watch, seats } of done) {
      this.#freeSeats += seats;
      this.#answered(watch, nowMs);
    }
  }

  #startWaiting(nowMs: number): void {
    for (;;) {
      const watch = this.#queue[this.#first];
      if (watch === undefined) break;
      const isLate = nowMs - watch.askedMs > WAIT_MS;
      const work = watch.isExpired ? EXPIRED : watch.read;
      if (!isLate && this.#freeSeats < work.seats) break;
      this.#first++;
      if (isLate) this.#turnAway(watch);
      else this.#start(watch, work);
    }
    this.#queue.splice(0, this.#first);
    this.#first = 0;
  }

  #start(watch: Watch, work: Work): void {
    const { node } = watch;
    const connectMs = node.isConnected ? 0 : CONNECT_MS;
    node.isConnected = true;
    this.#freeSeats -= work.seats;
    this.#running.push({ ...work, leftMs: work.cpuMs + connectMs, watch });
  }

  #answered(watch: Watch, nowMs: number): void {
    const { node, backoff } = watch;
    if (watch.isExpired) {
      watch.isExpired = false;
      backoff.reset();
      this.#clock.after(backoff.nextMs(), () => this.#ask(watch));
    } else if (--node.left === 0) this.#stepMs.push(nowMs);
  }
}
