import type { KeyedMutex } from "../../lib/async/mod.ts";
import {
  type Address,
  type DualStack,
  mapDualStack,
  valuesOf,
} from "../../lib/inet/mod.ts";
import type { AllocationRecord, NodeIpam } from "../../lib/ipam/mod.ts";
import type { PodLink, PodNetwork } from "../../lib/podnet/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import { keyText } from "./keys.ts";

const log = getLogger("pod-network");

/** What {@linkcode RouteRepair} works with. */
export interface RouteRepairOptions {
  readonly ipam: NodeIpam;
  readonly network: PodNetwork;
  readonly locks: KeyedMutex;
}

/**
 * Makes good what somebody did who emptied the pod table: no address of a
 * living pod is given out again, and the pod gets its routes back.
 */
export class RouteRepair {
  readonly #with: RouteRepairOptions;

  constructor(options: RouteRepairOptions) {
    this.#with = options;
  }

  /**
   * Fills in the addresses of pods of which neither a route nor the address
   * management tells any. What remains without is an ADD that was killed
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
   * Gives pods the host routes back that they lack, going by what the kernel
   * has. Pods that are being worked on wait for the next time, and so do
   * addresses that several pods claim.
   */
  async repair(
    pods: readonly PodLink[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<void> {
    const { ipam, locks } = this.#with;
    const holders = countHolders(ipam.list());
    for (const pod of pods) {
      const key = keyText(pod);
      if (locks.isLocked(key) || !this.#lacksRoutes(pod)) continue;
      using _lock = await locks.lock(key, { signal });
      const record = ipam.lookup(pod);
      if (record?.state !== "used") continue;
      if (valuesOf(record.addresses).some((a) => holders.get(`${a}`) !== 1)) {
        continue;
      }
      await this.#restore(pod, this.#wanted(record));
    }
  }

  async #restore(pod: PodLink, wanted: DualStack<Address>): Promise<void> {
    const { containerId, ifname: iface } = pod;
    try {
      const routes = await this.#with.network.restoreRoutes(pod, wanted);
      log.warn("Restored the host routes of a pod", {
        containerId,
        iface,
        routes,
      });
    } catch (err) {
      log.error("Cannot restore the host routes of a pod", {
        containerId,
        iface,
        err,
      });
    }
  }

  #lacksRoutes(pod: PodLink): boolean {
    const record = this.#with.ipam.lookup(pod);
    if (record?.state !== "used") return false;
    return valuesOf(this.#wanted(record))
      .some((address) => pod.addresses[address.family] === undefined);
  }

  /**
   * A pod has an address of each family of its block, of the same number. After
   * a restart only those are known that still had a route.
   */
  #wanted({ addresses, block: name }: AllocationRecord): DualStack<Address> {
    const block = this.#with.ipam.blocks().find((b) => b.name === name);
    const [known] = valuesOf(addresses);
    if (block === undefined || known === undefined) return addresses;
    const prefix = block.prefixes[known.family];
    if (!prefix?.contains(known)) return addresses;
    const number = prefix.indexOf(known);
    return {
      ...mapDualStack(block.prefixes, (other) => other.nth(number)),
      ...addresses,
    };
  }
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
