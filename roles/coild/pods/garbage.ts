import type { KeyedMutex } from "../../../lib/async/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import {
  type Address,
  type DualStack,
  valuesOf,
} from "../../../lib/inet/mod.ts";
import type { NodeIpam } from "../../../lib/ipam/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { GcOptions } from "../calls/attachments.ts";
import { parseGc } from "../calls/cni_request.ts";
import type { NetworkMemory } from "../network/memory.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import { podAddresses } from "../cluster/pod_status.ts";
import type { ListedAttachment, Teardown } from "./teardown.ts";
import { type AttachmentKey, keyText } from "../../../lib/cni/mod.ts";

const log = getLogger("gc");

export interface GarbageCollectorOptions {
  readonly ipam: Pick<NodeIpam, "list">;
  readonly network: Pick<PodNetwork, "list">;
  readonly pods: Pick<PodSource, "isSynced" | "list">;
  readonly teardown: Teardown;
  readonly networks: NetworkMemory;
  readonly locks: KeyedMutex;
}

/** An attachment, and what decides whether it is still needed. */
interface Candidate extends ListedAttachment {
  readonly pool: string;
  readonly addresses: DualStack<Address>;
}

/**
 * Releases attachments that the container runtime no longer has: the GC
 * command of CNI 1.1.
 *
 * The runtime names the attachments of *one* network. One that this process
 * added under another name is kept. Of one that an earlier process added, the
 * network is not known; it goes only when the runtime names no attachment of
 * its container, and no pod on this node has an address of that container.
 *
 * The runtime made its list before it called. What an ADD has made since, or
 * is about to make, is in no such list and is kept, however long the call takes.
 */
export class GarbageCollector {
  readonly #with: GarbageCollectorOptions;

  constructor(options: GarbageCollectorOptions) {
    this.#with = options;
  }

  /** Tears down all of the network that is in no valid attachment. */
  async collect(
    args: CniRequest,
    { signal, onReleased }: GcOptions,
  ): Promise<void> {
    const { ipam, locks, networks, teardown } = this.#with;
    const request = parseGc(args);
    const valid = new Set(request.valid.map(keyText));
    const lastAdd = networks.number;
    const busy = new Set(
      ipam.list().map(keyText).filter((text) => locks.isLocked(text)),
    );
    // Taken first: what a concurrent ADD makes from here on is not in it.
    const present = await this.#listAttachments();
    const failures: unknown[] = [];
    const living = this.#livingContainers(request.valid, present);
    for (const known of present) {
      const key = { containerId: known.containerId, ifname: known.ifname };
      const text = keyText(key);
      if (valid.has(text) || busy.has(text) || locks.isLocked(text)) continue;
      // While others were listed and released, perhaps.
      if (networks.isAddedAfter(key, lastAdd)) continue;
      if (!this.#isOf(known, { network: request.network, living })) continue;
      using held = new DisposableStack();
      held.use(await locks.lock(keyText(key), { signal }));
      try {
        if (!await teardown.startListed(known, held)) continue;
        networks.forget(key);
        onReleased(key);
        log.info("Released an attachment that the runtime does not have", {
          containerId: key.containerId,
          iface: key.ifname,
          pool: known.pool,
        });
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) {
      throw new AggregateError(
        failures,
        `Cannot release ${failures.length} attachments`,
        { cause: failures[0] },
      );
    }
  }

  /**
   * All attachments of the node, as they are now: links, and addresses whose
   * link is gone, as with a network namespace that was deleted before its DEL.
   */
  async #listAttachments(): Promise<Candidate[]> {
    const { ipam, network } = this.#with;
    const records = ipam.list();
    const generations = new Map(
      records.map((record) => [keyText(record), record.generation]),
    );
    const links = await network.list();
    const linked = new Set(links.map(keyText));
    return [
      ...links.map((link) => ({
        ...link,
        generation: generations.get(keyText(link)),
      })),
      ...records.filter((record) => !linked.has(keyText(record)))
        .map((record) => ({ ...record, index: undefined })),
    ];
  }

  #isOf(
    pod: Candidate,
    { network, living }: {
      readonly network: string;
      readonly living: ReadonlySet<string>;
    },
  ): boolean {
    const known = this.#with.networks.networkOf(pod);
    if (known !== undefined) return known === network;
    if (!this.#with.pods.isSynced) return false;
    if (!living.has(pod.containerId)) return true;
    log.warn("Kept an attachment that the runtime does not name", {
      containerId: pod.containerId,
      iface: pod.ifname,
      pool: pod.pool,
    });
    return false;
  }

  /**
   * The containers that the runtime names, or one of whose addresses a pod has.
   * A second interface's address is in no pod's status.
   */
  #livingContainers(
    valid: readonly AttachmentKey[],
    present: readonly Candidate[],
  ): Set<string> {
    // Parsed, since one IPv6 address has many texts.
    const used = new Set(
      this.#with.pods.list().flatMap(podAddresses).map(String),
    );
    const inUse = present.filter(({ addresses }) =>
      valuesOf(addresses).some((address) => used.has(address.toString()))
    );
    return new Set([...valid, ...inUse].map(({ containerId }) => containerId));
  }
}
