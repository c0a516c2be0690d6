import {
  CoalescedRunner,
  everyAbout,
  type KeyedMutex,
  LookLoop,
  TaskGroup,
} from "../../../lib/async/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import { valuesOf } from "../../../lib/inet/mod.ts";
import {
  listen,
  type Listener,
  type TableNotification,
  warnOfDeafness,
} from "../../../lib/netlink/mod.ts";
import type {
  PodLink,
  PodNetwork,
  PodSources,
  SourceTable,
} from "../../../lib/podnet/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type { RepairReports } from "../observe/repair_reports.ts";
import type { SourceWatch } from "./source_watch.ts";

const log = getLogger("pod-sources");

/** How often, about, to look whether the table and the links are as they should be, also when the kernel reports nothing. */
const INTERVAL_MS = 30_000;

/** The least time between two looks at the links. */
const MIN_INTERVAL_MS = 1_000;

// mutate: any name.
const TABLE = ["table"] as const;

export interface SourceGuardOptions {
  readonly table: Pick<SourceTable, "ensure" | "countForged"> & {
    /** Listens to what others do to the table. */
    watch(): Listener<TableNotification>;
  };
  readonly network: Pick<PodNetwork, "list" | "setSources">;
  readonly watch: Pick<SourceWatch, "choiceOf" | "subscribe">;
  readonly locks: KeyedMutex;
  /** Gets each restoration of the table. */
  readonly reports?: Pick<RepairReports, "repaired">;
  /** Default 30 s. */
  readonly lookMs?: number | undefined;
}

/**
 * Keeps pods from sending with sources that are not theirs: the node has the
 * nftables table that drops such packets, and each pod's link is in the group
 * that the table goes by. ADD puts new links there; links of earlier versions
 * and of upstream Coil are put there here.
 */
export class SourceGuard {
  readonly #with: SourceGuardOptions;
  readonly #failures = new RepeatFilter();
  #inPlace: boolean | undefined;
  #problem = "";
  #unrestricted = 0;

  constructor(options: SourceGuardOptions) {
    this.#with = options;
  }

  /** Whether the table was in place when it was looked at last. */
  get isInPlace(): boolean {
    return this.#inPlace === true;
  }

  /** How many interfaces of pods may send from any source. */
  get unrestricted(): number {
    return this.#unrestricted;
  }

  /** How many packets with forged sources were dropped; undefined while the kernel does not say. */
  async countForged(): Promise<
    { readonly ipv4: number; readonly ipv6: number } | undefined
  > {
    if (!this.isInPlace) return undefined;
    try {
      return await this.#with.table.countForged();
    } catch (error) {
      log.debug("Cannot read the counters of forged sources", { err: error });
      return undefined;
    }
  }

  /**
   * Makes the table where it is missing or changed. Never throws: a kernel that
   * cannot have it serves pods all the same. Idempotent. Returns whether
   * another program had deleted or changed it.
   */
  async ensureTable(): Promise<boolean> {
    try {
      const changed = await this.#with.table.ensure();
      const isRepair = changed && this.#inPlace === true;
      if (isRepair) this.#with.reports?.repaired(["sources"]);
      else if (changed) {
        log.info("Created the nftables table that drops forged sources");
      }
      this.#inPlace = true;
      this.#problem = "";
      return isRepair;
    } catch (error) {
      this.#inPlace = false;
      const problem = messageOf(error);
      // Once, not each time: it lasts until the node has another kernel.
      if (problem !== this.#problem) {
        log.error("Source validation is off", { err: error });
      }
      this.#problem = problem;
      return false;
    }
  }

  /**
   * Sets each pod's link for the sources that the pod may have. Pods that are
   * being worked on wait for the next time.
   */
  async settle({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    let unrestricted = 0;
    for (const pod of await this.#with.network.list()) {
      const wanted = this.#wanted(pod);
      if (wanted === "any") unrestricted++;
      if (wanted !== pod.sources) await this.#set(pod, wanted, signal);
    }
    this.#unrestricted = unrestricted;
  }

  /**
   * Looks after table and links until the signal: at once when another program
   * changes the table, or pods or namespaces change in what this is about.
   */
  async run(signal: AbortSignal): Promise<void> {
    const table = new LookLoop<typeof TABLE[number]>({
      all: TABLE,
      everyMs: this.#with.lookMs ?? INTERVAL_MS,
      look: () => this.ensureTable(),
      onFailure: () => {}, // it has none
    });
    const lookAtTable = () => table.want(TABLE);
    await using tasks = new TaskGroup({ signal });
    tasks.run("looking at the table", (s) => table.run(s));
    tasks.run("listening to nf_tables", (s) => this.#listen(lookAtTable, s));
    tasks.run("looking at pods' links", (s) => this.#followLinks(s));
    await tasks.wait();
  }

  async #listen(
    lookAtTable: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    const warn = warnOfDeafness(
      log,
      "checking the table that drops forged sources every 30 s",
      this.#failures,
    );
    await listen({
      watch: () => this.#with.table.watch(),
      onStart: lookAtTable,
      onHeard: lookAtTable,
      onFailure: (err) => {
        // A kernel that cannot have the table is reported once, by ensureTable().
        if (this.#inPlace !== false) warn(err);
      },
      signal,
    });
  }

  async #followLinks(signal: AbortSignal): Promise<void> {
    const runner = new CoalescedRunner((s) => this.#lookAtLinks(s), {
      minIntervalMs: MIN_INTERVAL_MS,
    });
    using _watch = this.#with.watch.subscribe(() => runner.trigger());
    await using tasks = new TaskGroup({ signal });
    tasks.run("looking when asked to", (s) => runner.run(s));
    runner.trigger();
    tasks.run(
      "asking from time to time",
      (s) => everyAbout(INTERVAL_MS, () => runner.trigger(), { signal: s }),
    );
    await tasks.wait();
  }

  async #lookAtLinks(signal: AbortSignal): Promise<void> {
    try {
      await this.settle({ signal });
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn("Cannot check whether pods can forge sources", { err: error });
    }
  }

  /**
   * By the pod that has one of the link's addresses. Where none is known, as
   * before its status has them, the link keeps what ADD gave it.
   */
  #wanted(link: PodLink): PodSources {
    const { watch } = this.#with;
    for (const address of valuesOf(link.addresses)) {
      const choice = watch.choiceOf(address);
      if (choice !== undefined) return choice === "any" ? "any" : "own";
    }
    return link.sources ?? "own";
  }

  async #set(
    pod: PodLink,
    sources: PodSources,
    signal: AbortSignal,
  ): Promise<void> {
    const { locks, network } = this.#with;
    const { containerId, ifname: iface, hostName: veth } = pod;
    if (locks.isLocked(keyText(pod))) return;
    using _lock = await locks.lock(keyText(pod), { signal });
    try {
      // mutate: only a record of the log.
      if (!await network.setSources(pod, sources, { signal })) return;
      log.info("Updated a pod's source filter", {
        containerId,
        iface,
        veth,
        sources,
        before: pod.sources ?? "unchecked",
      });
    } catch (error) {
      log.error("Cannot update a pod's source filter", {
        containerId,
        iface,
        veth,
        err: error,
      });
    }
  }
}
