import { everyAbout, type KeyedMutex } from "../../../lib/async/mod.ts";
import type { NodeIpam } from "../../../lib/ipam/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type { CoildMetrics } from "../observe/metrics.ts";
import type { FormerHolders } from "../observe/former_holders.ts";
import type { QuarantineEvents } from "../observe/quarantine_events.ts";
import type { RouteRepair } from "../network/route_repair.ts";
import type { Teardown } from "./teardown.ts";

const log = getLogger("gc");

export interface ReconcilerOptions {
  readonly ipam: NodeIpam;
  readonly network: Pick<PodNetwork, "survey">;
  readonly teardown: Teardown;
  readonly repair: RouteRepair;
  readonly quarantine: Pick<QuarantineEvents, "report">;
  readonly former: Pick<FormerHolders, "note">;
  readonly metrics: CoildMetrics;
  readonly locks: KeyedMutex;
  readonly intervalMs: number;
}

/**
 * Compares the kernel with the address management from time to time: husks
 * that were left behind are deleted, addresses whose interface is gone come
 * back, differences are reported.
 */
export class Reconciler {
  readonly #with: ReconcilerOptions;

  constructor(options: ReconcilerOptions) {
    this.#with = options;
  }

  /** Reconciles about once in each interval until the signal. Failures wait for the next one. */
  async run(signal: AbortSignal): Promise<void> {
    // Nodes that were started together do not compare together.
    await everyAbout(this.#with.intervalMs, async () => {
      try {
        await this.reconcile(signal);
        this.#with.metrics.reconciled("ok");
      } catch (error) {
        if (signal.aborted) throw error;
        this.#with.metrics.reconciled("error");
        log.warn("Cannot compare the kernel with the addresses", {
          err: error,
        });
      }
    }, { signal });
  }

  /** Reconciles once. */
  async reconcile(signal: AbortSignal): Promise<void> {
    const { former, ipam, network, quarantine, repair } = this.#with;
    const { pods, husks, malformed, misplacedRoutes } = await network.survey();
    if (malformed.length > 0 || misplacedRoutes.length > 0) {
      log.warn("Ignored foreign objects", {
        links: malformed.map(({ name }) => name),
        routes: misplacedRoutes.map(({ destination }) => String(destination)),
      });
    }
    // A husk still holds its address: the kernel may refuse to remove it.
    const cutOff = husks.map((husk) => ({
      ...husk,
      addresses: {},
      husk: true,
    }));
    const known = [...await repair.complete(pods), ...cutOff];
    const { freed, quarantined } = await ipam.reconcile(known, { signal });
    for (const record of freed) former.note(record);
    quarantine.report(quarantined);
    await repair.repair(pods, { signal });
    await this.#finishHusks(signal);
  }

  /**
   * Finishes what a failed teardown left cut off. While one husk is finished,
   * an ADD may take the place of another, so each is recognised by what was listed.
   */
  async #finishHusks(signal: AbortSignal): Promise<void> {
    const { ipam, locks, network, teardown } = this.#with;
    // Read first: an ADD that comes while the links are listed is not theirs.
    const generations = new Map(
      ipam.list().map((record) => [keyText(record), record.generation]),
    );
    const husks = (await network.survey()).husks.map((husk) => ({
      ...husk,
      generation: generations.get(keyText(husk)),
    }));
    for (const husk of husks) {
      // The holder of the lock does it.
      if (locks.isLocked(keyText(husk))) continue;
      using held = new DisposableStack();
      held.use(await locks.lock(keyText(husk), { signal }));
      try {
        await teardown.startListed(husk, held);
      } catch (err) {
        log.error("Cannot finish a teardown; the next comparison retries", {
          containerId: husk.containerId,
          iface: husk.ifname,
          err,
        });
      }
    }
  }
}
