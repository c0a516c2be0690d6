import {
  type Gate,
  LookLoop,
  sleep,
  TaskGroup,
} from "../../../lib/async/mod.ts";
import { count } from "../../../lib/flags/mod.ts";
import { FAMILIES } from "../../../lib/inet/mod.ts";
import type { NodeIpam } from "../../../lib/ipam/mod.ts";
import {
  listen,
  type Listener,
  type Notification,
  warnOfDeafness,
} from "../../../lib/netlink/mod.ts";
import type {
  HostProblem,
  PodNetwork,
  UpkeepPart,
} from "../../../lib/podnet/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import type { Readiness } from "../observe/readiness.ts";
import type { RepairReports } from "../observe/repair_reports.ts";
import type { RouteRepair } from "./route_repair.ts";
import type { ExportTable } from "./route_sink.ts";

const log = getLogger("upkeep");

/** How often everything is looked at, also when the kernel reports nothing. */
const LOOK_MS = 30_000;

/** Pods that an ADD or DEL was working on are looked at again after this. */
const BUSY_MS = 1_000;

const ALL: readonly UpkeepPart[] = ["host", "pods", "export"];

/** The condition of readiness that this keeps. */
// mutate: any name that no other condition has.
const CONDITION = "host network";

export interface NetworkKeeperOptions {
  readonly network: Pick<PodNetwork, "survey"> & {
    readonly upkeep: Pick<PodNetwork["upkeep"], "ensureHost" | "partsOf">;
  };
  readonly ipam: Pick<NodeIpam, "blocks" | "isReady" | "restoreExport">;
  readonly repair: Pick<RouteRepair, "repair">;
  /** Reports its repairs itself. */
  readonly routes: Pick<ExportTable, "restored">;
  readonly reports: Pick<RepairReports, "repaired">;
  readonly readiness: Readiness;
  /** Opens once the node has been prepared: what was missing before was not removed by another program. */
  readonly prepared: Gate;
  /** Listens to the kernel. */
  readonly watch: () => Listener;
  /** Default 30 s. */
  readonly lookMs?: number | undefined;
}

/**
 * Keeps the node's network as start and ADD made it. The kernel reports other
 * programs' changes, and everything is looked at every 30 s besides. What is
 * missing is put back; what cannot be, is named by readiness.
 */
export class NetworkKeeper {
  readonly #with: NetworkKeeperOptions;
  readonly #loop: LookLoop<UpkeepPart>;
  #podProblems: readonly string[] = [];
  #exportFails = false;
  #looksSoon = false;
  #reported = "";

  constructor(options: NetworkKeeperOptions) {
    this.#with = options;
    const failures = new RepeatFilter();
    this.#loop = new LookLoop({
      all: ALL,
      everyMs: options.lookMs ?? LOOK_MS,
      look: (parts, signal) => this.#look(parts, signal),
      onFailure: (err) => {
        if (!failures.passes(err)) return;
        log.warn("Cannot check the node's network; retrying", { err });
      },
    });
  }

  /** Listens and repairs until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#with.prepared.wait({ signal });
    await using tasks = new TaskGroup({ signal });
    tasks.run("listening to the kernel", (s) => this.#listen(s));
    tasks.run("looking at the network", (s) => this.#loop.run(s));
    await tasks.wait();
  }

  /** What is missing of single pods or the export table and could not be put back; for `/readyz`. */
  check(): true | string {
    const [first] = this.#podProblems;
    const more = this.#podProblems.length - 1;
    const problems = [
      ...(first === undefined ? [] : [first]),
      ...(more > 0 ? [`and ${count(more, "more pod")}`] : []),
      ...(this.#exportFails ? ["the export table cannot be written"] : []),
    ];
    return problems.length === 0 || problems.join("; ");
  }

  async #listen(signal: AbortSignal): Promise<void> {
    await listen({
      watch: this.#with.watch,
      onStart: () => this.#loop.want(ALL),
      onHeard: (notifications) => this.#heard(notifications),
      onFailure: warnOfDeafness(log, "checking the network every 30 s"),
      signal,
    });
  }

  #heard(notifications: readonly Notification[]): void {
    const { upkeep } = this.#with.network;
    for (const notification of notifications) {
      if (notification.kind === "overflow") {
        log.info("Lost kernel notifications; checking the whole network");
      }
      this.#loop.want(upkeep.partsOf(notification));
    }
  }

  /** Returns whether anything had to be put back. */
  async #look(
    parts: ReadonlySet<UpkeepPart>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const results = [
      parts.has("host") && await this.#lookAtHost(),
      // Before, it is unknown what pods should have; the start looks at them all.
      parts.has("pods") && this.#with.ipam.isReady &&
      await this.#lookAtPods(signal),
      parts.has("export") && await this.#lookAtExport(signal),
    ];
    return results.includes(true);
  }

  async #lookAtHost(): Promise<boolean> {
    const { network, reports } = this.#with;
    const { repaired, problems } = await network.upkeep.ensureHost();
    reports.repaired(repaired.map(({ what }) => what));
    this.#judge(problems);
    return repaired.length > 0;
  }

  /** Problems of a family that none of the node's blocks has do not count. */
  #judge(problems: readonly HostProblem[]): void {
    const { ipam, readiness } = this.#with;
    const used = FAMILIES.filter((family) =>
      ipam.blocks().some(({ prefixes }) => prefixes[family] !== undefined)
    );
    const reason = problems.filter(({ family }) => used.includes(family))
      .map(({ message }) => message).join("; ");
    if (reason === "") readiness.met(CONDITION);
    else readiness.waiting(CONDITION, reason);
    // mutate: any separator.
    const text = problems.map(({ message }) => message).join("; ");
    if (text === this.#reported) return;
    this.#reported = text;
    if (text === "") log.info("The node's network for pods is complete again");
    for (const err of problems) {
      log.error("The node's network for pods is incomplete", { err });
    }
  }

  async #lookAtPods(signal: AbortSignal): Promise<boolean> {
    const { network, repair } = this.#with;
    const { pods } = await network.survey();
    const { repaired, busy, problems } = await repair.repair(pods, { signal });
    this.#podProblems = problems;
    if (busy > 0) this.#lookSoon(signal);
    return repaired > 0;
  }

  /** Once for all looks that ask in the meantime. */
  #lookSoon(signal: AbortSignal): void {
    if (this.#looksSoon) return;
    this.#looksSoon = true;
    sleep(BUSY_MS, { signal }).then(() => {
      this.#looksSoon = false;
      this.#loop.want(["pods"]);
    }, () => {});
  }

  async #lookAtExport(signal: AbortSignal): Promise<boolean> {
    const { ipam, routes } = this.#with;
    const before = routes.restored;
    this.#exportFails = !await ipam.restoreExport({ signal });
    return routes.restored > before;
  }
}
