/** Random steps on the site, many at a time, until a quiet point compares what came of them. */
import { Calls } from "./calls.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { assertAgreement, assertNothingLeft } from "./compare.ts";
import type { History } from "./history.ts";
import type { Random } from "./random.ts";
import type { Pod } from "./runtime.ts";
import type { Daemon } from "./daemon.ts";
import { EGRESS_NAMES, type Site } from "./site.ts";

/** How often each step comes. */
const WEIGHTS = {
  add: 300,
  del: 200,
  twoDels: 30,
  hangUp: 20,
  check: 60,
  gc: 25,
  wave: 6,
  deleteInterface: 25,
  deleteNetns: 25,
  annotate: 30,
  gateways: 6,
  deleteBlock: 8,
  robBlock: 2,
  repair: 15,
  flushRoutes: 10,
  changePool: 8,
  killCoild: 3,
  stopCoild: 1,
  killController: 3,
  pauseApi: 3,
  killApi: 1,
  wait: 40,
} as const;
type Step = keyof typeof WEIGHTS;

/** Another program takes away what coild has in the kernel. */
const FLUSHES = [
  "ip route flush table 116; ip -6 route flush table 116",
  "ip route flush table 119; ip -6 route flush table 119",
  "ip rule delete priority 2000; ip -6 rule delete priority 2000; true",
].map((script) => `(${script}) 2>/dev/null || true`);

/** Calls under way at a time. */
const CALLS = 24;
/** Steps from one quiet point to the next. */
const STRETCH = 250;

/** How long a run is. */
export interface Length {
  readonly steps: number;
  /** So many even if their time is over. */
  readonly atLeast?: number;
  /** The time for the steps, without the deletion of all. */
  readonly ms?: number;
}

/** Drives a site by one seed's steps. */
export class Driver {
  readonly #site: Site;
  readonly #random: Random;
  readonly #history: History;
  readonly #calls: Calls;
  readonly #running = new Set<Promise<void>>();
  #violation: unknown;

  constructor(site: Site, random: Random, history: History) {
    this.#site = site;
    this.#random = random;
    this.#history = history;
    this.#calls = new Calls(site, history);
  }

  /**
   * Makes so many steps, or fewer when their time is over, and, at the end,
   * deletes all. @throws {Violation}
   */
  async run({ steps, atLeast = steps, ms = Infinity }: Length): Promise<void> {
    const until = performance.now() + ms;
    for (let n = 1; n <= steps; n++) {
      this.#history.steps = n;
      await this.#step(this.#random.weighted<Step>(WEIGHTS));
      while (this.#running.size >= CALLS) await Promise.race(this.#running);
      this.#throwIfViolated();
      if (n % STRETCH !== 0) continue;
      await this.#quieten();
      if (n >= atLeast && performance.now() > until) break;
    }
    await this.#quieten();
    await this.#deleteAll();
  }

  async #step(step: Step): Promise<void> {
    const daemon = this.#pickDaemon();
    const pod = this.#random.pick(this.#site.podsOf(daemon));
    const pick = this.#random.below(1 << 20);
    switch (step) {
      case "add":
        return this.#onPod("add", pod, () => this.#calls.add(pod, pick));
      case "del":
        return this.#onPod("del", pod, () => this.#calls.del(pod));
      case "twoDels":
        return this.#onPod("twoDels", pod, async () => {
          await Promise.all([this.#calls.del(pod), this.#calls.del(pod)]);
        });
      case "hangUp":
        return this.#onPod("hangUp", pod, () => this.#calls.hangUp(pod, pick));
      case "check":
        return this.#onPod("check", pod, () => this.#calls.check(pod));
      case "gc":
        return this.#startGc(daemon, pick);
      case "wave":
        return this.#wave(daemon, pick);
      case "deleteInterface":
        return this.#onPod(step, pod, () => this.#calls.deleteInterface(pod));
      // Even while a call for it is under way.
      case "deleteNetns":
        return this.#background(
          `${step} ${pod.name}`,
          () => this.#calls.deleteNetns(pod),
        );
      case "repair":
        return this.#background(
          `${step} ${daemon.node.name}`,
          () => this.#calls.repair(daemon),
        );
      case "flushRoutes":
        return this.#background(
          `${step} ${daemon.node.name} ${pick % FLUSHES.length}`,
          () =>
            daemon.node.run("sh", "-c", FLUSHES[pick % FLUSHES.length] ?? "")
              .then(() => {}),
        );
      case "wait":
        return await sleep(pick % 20);
      case "killCoild":
      case "stopCoild":
        return this.#restart(step, daemon, pick);
      default:
        return this.#onCluster(step, pod, pick);
    }
  }

  /** Calls to a daemon that does not run tell little: most go to another one. */
  #pickDaemon(): Daemon {
    const daemon = this.#random.pick(this.#site.daemons);
    const other = this.#site.daemons.find(({ isAway }) => !isAway);
    const isAnyway = this.#random.chance(0.05);
    return daemon.isAway && !isAnyway ? other ?? daemon : daemon;
  }

  /** Steps that need the API server, or take it away. */
  #onCluster(step: Step, pod: Pod, pick: number): void {
    const site = this.#site;
    if (site.isApiAway) return;
    switch (step) {
      case "annotate":
        return this.#onPod(step, pod, () => this.#calls.annotate(pod, pick));
      case "gateways": {
        const name = EGRESS_NAMES[pick % 2 === 0 ? 0 : 1];
        return this.#background(
          `${step} ${name} ${pick}`,
          () => this.#calls.tried(() => site.setGateways(name, pick >> 4)),
        );
      }
      case "changePool":
        return this.#background(step, () => this.#calls.changePool(pick));
      case "deleteBlock":
      case "robBlock":
        return this.#background(
          step,
          () =>
            this.#calls.deleteBlock(pick, { isForced: step === "robBlock" }),
        );
      case "killController":
        return this.#background(step, async () => {
          await site.restartController(pick % 1000);
        });
      case "pauseApi":
        this.#history.note(`${step} for ${pick % 2500} ms`);
        return site.pauseApi(pick % 2500);
      case "killApi":
        this.#history.note(`${step} for ${pick % 1500} ms`);
        return site.killApi(pick % 1500);
    }
  }

  #throwIfViolated(): void {
    if (this.#violation !== undefined) throw this.#violation;
  }

  /** Does something beside the steps. */
  #background(what: string, fn: () => Promise<void>): void {
    this.#history.note(what);
    const promise = fn().catch((error) => {
      this.#violation ??= error;
    }).finally(() => this.#running.delete(promise));
    this.#running.add(promise);
  }

  /** Does something with a pod that no call is under way for: a runtime's calls about one follow each other. */
  #onPod(what: string, pod: Pod, fn: () => Promise<void>): void {
    if (pod.isBusy) return;
    pod.isBusy = true;
    this.#background(`${what} ${pod.name}`, async () => {
      try {
        await fn();
      } finally {
        pod.isBusy = false;
      }
    });
  }

  #startGc(daemon: Daemon, pick: number): void {
    const collection = this.#calls.gc(daemon, pick);
    if (collection === undefined) return;
    this.#background(`gc ${daemon.node.name}`, () => collection);
  }

  /** A node's pods all at once. */
  #wave(daemon: Daemon, pick: number): void {
    const isAdd = pick % 2 === 0;
    for (const pod of this.#site.podsOf(daemon)) {
      if ((pod.phase === "detached") !== isAdd) continue;
      this.#onPod(
        isAdd ? "wave-add" : "wave-del",
        pod,
        () => isAdd ? this.#calls.add(pod, pick >> 1) : this.#calls.del(pod),
      );
    }
  }

  #restart(
    step: "killCoild" | "stopCoild",
    daemon: Daemon,
    pick: number,
  ): void {
    if (daemon.isAway) return;
    this.#background(
      `${step} ${daemon.node.name}`,
      () =>
        daemon.away(async () => {
          if (step === "killCoild") await daemon.kill();
          else await daemon.stop();
          await sleep(pick % 200);
          await daemon.ready();
        }),
    );
  }

  /** Ends all faults, has the runtime clean up, and compares. */
  async #quieten(): Promise<void> {
    await this.#drain();
    await this.#site.heal();
    this.#history.note("quiet");
    const { pods } = this.#site;
    const isOver = (pod: Pod) =>
      pod.phase === "unknown" || (pod.isDamaged && this.#random.chance(0.5));
    await this.#calls.deletePods(pods.filter(isOver));
    await this.#reportAll();
    await assertAgreement(this.#site);
    await this.#calls.checkAll();
    await this.#calls.refuseWhenClosed(this.#random.below(1 << 20));
    await this.#calls.serveOneMore();
    this.#calls.ledger.settle();
  }

  /**
   * Brings the model and the API server together after requests that were cut
   * off: such a request may have been done. A status with an address that
   * another pod has by now would keep coild from both pods' egress.
   */
  async #reportAll(): Promise<void> {
    // The first requests after an outage may meet connections of before it.
    const listed = await eventually("the pods", () => this.#site.readPods());
    for (const pod of this.#site.pods) {
      pod.egress = listed.get(pod.name)?.egress;
      pod.hasStatus = listed.get(pod.name)?.hasStatus ?? false;
      if (!pod.isWhole) await this.#site.clearStatus(pod);
    }
    for (const pod of this.#site.pods.filter(({ isWhole }) => isWhole)) {
      // coild finds pods of before its start by their status.
      const wasClient = await this.#site.egress.plane.of(pod.sandbox);
      if (pod.egress === undefined && wasClient === undefined) continue;
      await eventually("the pod's status", async () => {
        await this.#site.report(pod);
        return true;
      });
    }
  }

  async #deleteAll(): Promise<void> {
    await this.#calls.deletePods(this.#site.pods);
    await assertNothingLeft(this.#site);
  }

  async #drain(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
    this.#throwIfViolated();
  }
}
