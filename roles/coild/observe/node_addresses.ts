import type { KeyedMutex } from "../../../lib/async/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type {
  NodeAddresses,
  PodEntry,
} from "../../../lib/cnirpc/inspection/mod.ts";
import { type DualStack, valuesOf } from "../../../lib/inet/mod.ts";
import type { NodeIpam } from "../../../lib/ipam/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import type { PodSource } from "../cluster/pod_source.ts";
import { hasOwnNetwork } from "../cluster/pod_status.ts";

export interface NodeAddressesOptions {
  readonly nodeName: string;
  readonly ipam: Pick<NodeIpam, "list" | "blocks">;
  readonly network: Pick<PodNetwork, "survey">;
  readonly pods: Pick<PodSource, "isSynced" | "list">;
  readonly locks: Pick<KeyedMutex, "isLocked">;
}

/**
 * Puts side by side what kernel, address table and API server have. Each is
 * read once, one after the other, without a lock: what differs at one moment
 * only is an ADD or DEL under way.
 */
export async function nodeAddresses(
  { nodeName, ipam, network, pods, locks }: NodeAddressesOptions,
): Promise<NodeAddresses> {
  // First: a pod that comes in the meantime is young in the table.
  const known = pods.isSynced ? pods.list().filter(hasOwnNetwork) : undefined;
  const survey = await network.survey();
  return {
    node: nodeName,
    kernel: [
      ...survey.pods.map(({ containerId, ifname, up, addresses }) => ({
        containerId,
        ifname,
        state: up ? "up" as const : "down" as const,
        addresses: texts(addresses),
      })),
      ...survey.husks.map(({ containerId, ifname }) => ({
        containerId,
        ifname,
        state: "husk" as const,
        addresses: [],
      })),
    ],
    table: ipam.list().map((record) => ({
      containerId: record.containerId,
      ifname: record.ifname,
      pool: record.pool,
      ...(record.block !== undefined && { block: record.block }),
      state: record.state,
      ageSeconds: Math.floor(record.ageMs / 1_000),
      isBusy: locks.isLocked(keyText(record)),
      generation: record.generation,
      addresses: texts(record.addresses),
    })),
    ...(known !== undefined && { pods: known.map(podEntry) }),
    blocks: Object.fromEntries(
      ipam.blocks().map(({ name, prefixes }) => [name, texts(prefixes)]),
    ),
  };
}

function podEntry({ metadata, status }: V1Pod): PodEntry {
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    isEnding: metadata?.deletionTimestamp !== undefined,
    addresses: (status?.podIPs ?? []).map(({ ip }) => ip),
  };
}

function texts(dual: DualStack<{ toString(): string }>): string[] {
  return valuesOf(dual).map(String);
}
