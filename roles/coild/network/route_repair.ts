import type { KeyedMutex } from "../../../lib/async/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import {
  type Address,
  type DualStack,
  valuesOf,
} from "../../../lib/inet/mod.ts";
import type { AllocationRecord, NodeIpam } from "../../../lib/ipam/mod.ts";
import type {
  LinkAddresses,
  PodLink,
  PodNetwork,
} from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type { RepairReports } from "../observe/repair_reports.ts";

const log = getLogger("pod-network");

export interface RouteRepairOptions {
  readonly ipam: NodeIpam;
  readonly network: PodNetwork;
  readonly locks: KeyedMutex;
  readonly reports: Pick<RepairReports, "repaired">;
}

export interface PodRepair {
  /** How many pods lacked something and have it now. */
  readonly repaired: number;
  /** How many lack something and were being worked on: to be looked at soon. */
  readonly busy: number;
  /** What could not be put back, in words. */
  readonly problems: readonly string[];
}

/**
 * Repairs the node after another program has emptied the pod table, or has taken a
 * pod's end on the host down or its addresses off: no address of a living pod is
 * given out again, and the pod gets back what it had.
 */
export class RouteRepair {
  readonly #with: RouteRepairOptions;

  constructor(options: RouteRepairOptions) {
    this.#with = options;
  }

  /**
   * Fills in the addresses of pods for which neither a route nor the address
   * management has one. What remains without is an ADD that was killed
   * before it gave the pod an address.
   */
  async complete(pods: readonly PodLink[]): Promise<readonly PodLink[]> {
    const { ipam, network } = this.#with;
    const lost = pods.filter((pod) =>
      valuesOf(pod.addresses).length === 0 && ipam.lookup(pod) === undefined
    );
    if (lost.length === 0) return pods;
    const found = await network.findLostAddresses(lost);
    if (found.size > 0) {
      log.warn("Read addresses from pods: their host routes are gone", {
        pods: found.size,
      });
    }
    return pods.map((pod) => {
      const addresses = found.get(pod.index);
      return addresses === undefined ? pod : { ...pod, addresses };
    });
  }

  /**
   * Gives pods back what their ends on the host lack, going by what the kernel
   * has. Pods that are being worked on wait for the next time, and so do
   * addresses that several pods claim.
   */
  async repair(
    pods: readonly PodLink[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<PodRepair> {
    const { ipam, locks, network } = this.#with;
    const holders = countHolders(ipam.list());
    const present = await network.upkeep.listAddresses();
    const problems: string[] = [];
    let [repaired, busy] = [0, 0];
    for (const pod of pods) {
      const key = keyText(pod);
      if (!this.#lacksAnything(pod, present)) continue;
      if (locks.isLocked(key)) {
        busy++;
        continue;
      }
      using _lock = await locks.lock(key, { upkeep: true, signal });
      const record = ipam.lookup(pod);
      if (!isKept(record)) continue;
      if (valuesOf(record.addresses).some((a) => holders.get(`${a}`) !== 1)) {
        continue;
      }
      const problem = await this.#restore(pod, record.addresses);
      if (problem === undefined) repaired++;
      else problems.push(problem);
    }
    return { repaired, busy, problems };
  }

  /** Returns why it failed. */
  async #restore(
    pod: PodLink,
    wanted: DualStack<Address>,
  ): Promise<string | undefined> {
    const { containerId, hostName, ifname: iface } = pod;
    try {
      const lacks = await this.#with.network.upkeep.restoreEnd(pod, wanted);
      if (lacks.length === 0) return undefined;
      this.#with.reports.repaired(lacks);
      log.info("Restored a pod's host interface", {
        containerId,
        iface,
        veth: hostName,
        lacks,
      });
      return undefined;
    } catch (err) {
      log.error("Cannot restore a pod's host interface", {
        containerId,
        iface,
        veth: hostName,
        err,
      });
      return `host link "${hostName}" of ${valuesOf(wanted).join(" and ")}: ${
        messageOf(err)
      }`;
    }
  }

  #lacksAnything(pod: PodLink, present: LinkAddresses): boolean {
    const record = this.#with.ipam.lookup(pod);
    if (!isKept(record)) return false;
    const { addresses } = record;
    const { upkeep } = this.#with.network;
    return upkeep.findEndLacks(pod, { addresses, present }).length > 0;
  }
}

/** A pod whose block was taken away keeps its addresses too. */
function isKept(
  record: AllocationRecord | undefined,
): record is AllocationRecord {
  return record !== undefined && record.state !== "releasing";
}

function countHolders(
  records: readonly AllocationRecord[],
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const address of records.flatMap((r) => valuesOf(r.addresses))) {
    const text = address.toString();
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return counts;
}
