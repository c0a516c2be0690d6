/** What a node's runtime, its pods and its admin do, and what the runtime is told of it. */
import { askAddresses, askRelease } from "../../lib/cnirpc/inspection/mod.ts";
import { messageOf } from "../../lib/errors/mod.ts";
import { CallError } from "../apiserver/coild_lab.ts";
import { run, sleep } from "../lab/mod.ts";
import { isLate } from "../lab/runtime.ts";
import { prefixesOf } from "./compare.ts";
import type { History } from "./history.ts";
import { Ledger, type Pod, Violation } from "./runtime.ts";
import type { Daemon } from "./daemon.ts";
import { EGRESS_NAMES, NETWORKS, POOLS, type Site } from "./site.ts";

/** What becomes of a pool; mostly it is open again. */
const CHANGES = ["open", "paused", "open", "reserved", "open", "drained"];

/** A call that takes longer than this while all are well hangs. */
const CALL_MS = 60_000;
/** A pool that was just empty, or a watch that was just cut, may cost a runtime some tries of three seconds. */
const SERVED_MS = 180_000;

/** Calls about pods, one after the other for each. */
export class Calls {
  readonly ledger: Ledger = new Ledger();
  readonly #site: Site;
  readonly #history: History;
  /** The GC that each node's runtime waits for. */
  readonly #collections = new Map<number, Promise<void>>();

  constructor(site: Site, history: History) {
    this.#site = site;
    this.#history = history;
  }

  /** ADD; of a pod that is attached the same again, as of a runtime that lost the answer. */
  async add(pod: Pod, pick: number): Promise<void> {
    const wasWhole = pod.isWhole;
    const isNew = pod.phase === "detached" && pick % 2 === 0;
    if (isNew || (pod.phase === "detached" && !pod.hasNetns)) {
      await this.#site.renewSandbox(pod);
    }
    if (!pod.hasNetns) return await this.del(pod);
    // The specification has GC and the beginning of an ADD exclude each other.
    await this.#collections.get(pod.node);
    if (pod.phase === "detached") pod.isDamaged = pod.isRobbed = false;
    const before = pod.addresses;
    const { sandbox } = pod;
    const addresses = await this.#call(
      pod,
      "ADD",
      () =>
        this.#site.daemonOf(pod).coild.addresses(sandbox, {
          timeoutMs: CALL_MS,
        }),
    );
    if (addresses === undefined) return;
    this.#history.note(`added ${pod.name} ${addresses}`);
    if (wasWhole && before.join() !== addresses.join()) {
      // An interface that the pod itself removed in the meantime is recreated.
      if (!pod.isDamaged) {
        throw new Violation(
          `${pod.name} had ${before}, the same ADD gave ${addresses}`,
        );
      }
      this.ledger.release(pod);
    }
    pod.phase = "attached";
    if (pod.hasNetns) pod.isDamaged = false;
    this.ledger.give(pod, addresses);
    if (pod.isDamaged) this.ledger.release(pod);
    if (pod.egress === undefined) return;
    await this.tried(() => this.#site.report(pod));
  }

  async del(pod: Pod): Promise<void> {
    await this.#site.clearStatus(pod);
    this.ledger.release(pod);
    const before = pod.phase;
    const { sandbox } = pod;
    // Runtimes name no namespace that is gone.
    const netns = pod.hasNetns ? undefined : "";
    const done = await this.#call(pod, "DEL", async () => {
      await this.#site.daemonOf(pod).coild.del(sandbox, {
        timeoutMs: CALL_MS,
        ...(netns !== undefined && { netns }),
      });
      return true;
    });
    if (done !== true) return;
    this.#history.note(`deleted ${pod.name}, was ${before}`);
    pod.phase = "detached";
    pod.addresses = [];
    pod.isDamaged = false;
    pod.isRobbed = false;
  }

  /** A call whose runtime goes away amid it. */
  async hangUp(pod: Pod, pick: number): Promise<void> {
    if (pod.phase !== "detached" || !pod.hasNetns) return;
    await this.#collections.get(pod.node);
    const signal = AbortSignal.timeout(1 + pick % 12);
    const { coild } = this.#site.daemonOf(pod);
    pod.phase = "unknown";
    await this.tried(() => coild.add(pod.sandbox, { signal }));
    if (pick % 2 === 0) await this.del(pod);
  }

  async check(pod: Pod): Promise<void> {
    if (!pod.isWhole) return;
    const { coild } = this.#site.daemonOf(pod);
    await this.tried(() => coild.check(pod.sandbox, { timeoutMs: CALL_MS }));
  }

  /** GC of a node; undefined while one is under way. */
  gc(daemon: Daemon, pick: number): Promise<void> | undefined {
    const node = this.#site.daemons.indexOf(daemon);
    if (this.#collections.has(node)) return undefined;
    const collection = this.#collect(daemon, pick)
      .finally(() => this.#collections.delete(node));
    this.#collections.set(node, collection);
    return collection;
  }

  /** Names all that are attached or that a call is under way for, and forgets some of the others. */
  async #collect(daemon: Daemon, pick: number): Promise<void> {
    const pods = this.#site.podsOf(daemon);
    const [dropped] = pods.filter((pod) => pod.isWhole && !pod.isBusy)
      .slice(pick % pods.length);
    if (dropped !== undefined) {
      dropped.isBusy = true;
      await this.#site.clearStatus(dropped);
      this.ledger.release(dropped);
      dropped.phase = "unknown";
    }
    const valid = pods.filter((pod) =>
      pod !== dropped && (pod.phase !== "detached" || pod.isBusy)
    );
    try {
      await this.tried(async () => {
        const sandboxes = valid.map(({ sandbox }) => sandbox);
        await daemon.coild.call("Gc", undefined, {
          valid: sandboxes,
          timeoutMs: CALL_MS,
        });
      });
    } finally {
      if (dropped !== undefined) dropped.isBusy = false;
    }
  }

  /** The pod has the right to do that. */
  async deleteInterface(pod: Pod): Promise<void> {
    if (!pod.isWhole) return;
    await this.#site.clearStatus(pod);
    this.#damage(pod);
    try {
      await run("ip", ["-n", pod.sandbox.netns, "link", "delete", "eth0"]);
    } catch (error) {
      // Another step may remove the namespace amid this one.
      if (pod.hasNetns) throw error;
    }
  }

  async deleteNetns(pod: Pod): Promise<void> {
    if (pod.phase === "detached" && !pod.isBusy) return;
    await this.#site.clearStatus(pod);
    this.#damage(pod);
    await this.#site.deleteNetns(pod);
  }

  #damage(pod: Pod): void {
    pod.isDamaged = true;
    this.ledger.release(pod);
  }

  async annotate(pod: Pod, pick: number): Promise<void> {
    const [name] = EGRESS_NAMES.slice(pick % 3);
    await this.tried(async () => {
      await this.#site.egress.annotate(pod.sandbox, name ?? null);
      pod.egress = name;
      if (pod.phase === "attached") await this.#site.report(pod);
    });
  }

  async deleteBlock(
    pick: number,
    { isForced }: { readonly isForced: boolean },
  ): Promise<void> {
    await this.tried(async () => {
      const blocks = await this.#site.list("addressblocks");
      const block = blocks[pick % (blocks.length || 1)];
      if (block === undefined) return;
      const { name } = block.metadata;
      this.#history.note(`${isForced ? "robbed" : "unblocked"} ${name}`);
      await this.#site.deleteBlock(name);
      if (!isForced) return;
      this.ledger.rob(
        prefixesOf(block as { ipv4?: string; ipv6?: string } & typeof block),
      );
      await this.#site.patch("addressblocks", name, {
        metadata: { finalizers: null },
      });
    });
  }

  /** As `coil ipam check --repair` does with what it takes for leaked: here, with all that coild has. */
  async repair({ coild, node }: Daemon): Promise<void> {
    const asking = () => ({ signal: AbortSignal.timeout(CALL_MS) });
    await this.tried(async () => {
      const { table } = await askAddresses(coild.socketPath, asking());
      const { results } = await askRelease(coild.socketPath, {
        entries: table,
        dryRun: false,
        ...asking(),
      });
      const freed = results.filter(({ outcome }) => outcome === "freed");
      this.#history.note(
        `repaired ${node.name}: ${freed.map((r) => r.addresses)}`,
      );
    });
  }

  /** A pool gives nothing for a while, or none of eight addresses; those that have them keep them, or are replaced as by `coil ipam drain --evict`. */
  async changePool(pick: number): Promise<void> {
    const pool = POOLS[pick % 2 === 0 ? 0 : 1] ?? "dual";
    const first = (pick >> 4) % 64;
    const reserved = Array.from(
      { length: 8 },
      (_, n) => `${NETWORKS[pool]}.${first + n}`,
    );
    const kind = CHANGES[(pick >> 1) % CHANGES.length];
    this.#history.note(`changed ${pool} ${kind} ${first}`);
    await this.tried(() =>
      this.#site.changePool(pool, {
        paused: kind === "paused",
        reserved: kind === "reserved" || kind === "drained" ? reserved : [],
      })
    );
    if (kind !== "drained") return;
    const holders = this.#site.pods.filter(({ addresses, isBusy }) =>
      !isBusy && addresses.some((address) => reserved.includes(address))
    );
    for (const pod of holders) pod.isBusy = true;
    await Promise.all(holders.map(async (pod) => {
      await this.del(pod).finally(() => pod.isBusy = false);
    }));
  }

  /** Makes a call; without its answer the runtime knows nothing. */
  async #call<T>(
    pod: Pod,
    what: string,
    fn: () => Promise<T>,
  ): Promise<T | undefined> {
    pod.failure = "";
    try {
      return await fn();
    } catch (error) {
      // Nor has the pod its addresses for sure: an ADD replaces the interface of an earlier one.
      this.ledger.release(pod);
      pod.phase = "unknown";
      pod.failure = textOf(error);
      this.#history.note(`failed ${what} ${pod.name} ${pod.failure}`);
      return undefined;
    }
  }

  /** What may fail amid faults. */
  async tried(fn: () => Promise<unknown>): Promise<void> {
    try {
      await fn();
    } catch (error) {
      this.#history.note(`failed ${textOf(error)}`);
    }
  }

  /** With all well and nothing else under way CHECK finds nothing. */
  async checkAll(): Promise<void> {
    const whole = this.#site.pods.filter((pod) => pod.isWhole && !pod.isRobbed);
    await Promise.all(whole.map(async (pod) => {
      try {
        await this.#site.daemonOf(pod).coild.check(pod.sandbox);
      } catch (error) {
        throw new Violation(`CHECK of ${pod.name}: ${textOf(error)}`, {
          cause: error,
        });
      }
    }));
  }

  /** With all well DEL succeeds. */
  async deletePods(pods: readonly Pod[]): Promise<void> {
    await Promise.all(pods.map(async (pod) => {
      await this.del(pod);
      if (pod.phase === "detached") return;
      throw new Violation(`DEL of ${pod.name} failed although all was well`);
    }));
  }

  /** With all well a pool that is closed gives no address from when a node has noticed; those that have some keep them. */
  async refuseWhenClosed(pick: number): Promise<void> {
    const pool = POOLS[pick % 2 === 0 ? 0 : 1] ?? "dual";
    const isPaused = (pick >> 1) % 2 === 0;
    const reserved = isPaused ? [] : [`${NETWORKS[pool]}.0/24`];
    this.#history.note(`closed ${pool} ${isPaused ? "paused" : "reserved"}`);
    await this.#site.changePool(pool, { paused: isPaused, reserved });
    await Promise.all(this.#site.daemons.map(async (daemon) => {
      const pod = this.#site.podsOf(daemon)
        .find((pod) => pod.phase === "detached" && pod.pool === pool);
      if (pod === undefined) return;
      const until = performance.now() + SERVED_MS;
      for (let refused = 0; refused < 2;) {
        await this.add(pod, 0);
        const { failure } = pod;
        await this.deletePods([pod]);
        const isServed = failure === "";
        // A refusal for lack of time says nothing of the pool.
        if (!isServed && !isLate(failure)) refused++;
        else if ((isServed && refused > 0) || performance.now() > until) {
          throw new Violation(
            `${pod.name} of a closed pool: ${failure || "it got an address"}`,
          );
        }
      }
    }));
    await this.#site.changePool(pool);
  }

  /** With all well each node serves one more pod. */
  async serveOneMore(): Promise<void> {
    await Promise.all(this.#site.daemons.map(async (daemon) => {
      const pod = this.#site.podsOf(daemon)
        .find(({ phase }) => phase === "detached");
      if (pod === undefined) return;
      const until = performance.now() + SERVED_MS;
      for (let tries = 0; pod.phase !== "attached"; tries++) {
        if (performance.now() > until) {
          throw new Violation(
            `ADD of ${pod.name} failed although all was well`,
          );
        }
        if (tries > 0) await sleep(200);
        await this.add(pod, tries);
      }
    }));
  }
}

function textOf(error: unknown): string {
  if (error instanceof CallError) {
    return `${error.status} ${error.code} ${error.message}`;
  }
  return messageOf(error);
}
