import type { Block, Pool } from "../../../lib/api/mod.ts";
import { type Address, PrefixMap, valuesOf } from "../../../lib/inet/mod.ts";
import {
  type LivePod,
  type Replaceable,
  selectReplaceable,
} from "../../../lib/eviction/mod.ts";

/** The pods that v1 gave their addresses. */
export interface V1Pods extends Replaceable {
  /** Names of reserved blocks that have addresses of pods. */
  readonly inUse: ReadonlySet<string>;
}

/**
 * Finds v1's pods: their address is in a reserved block, or in a pool and in no block at all.
 *
 * An address that is in a block of v2's is v2's, also when a reserved block has it too: that one was applied too late.
 */
export function findV1Pods(
  pods: readonly LivePod[],
  { pools, blocks }: {
    readonly pools: readonly Pool[];
    readonly blocks: readonly Block[];
  },
): V1Pods {
  const index = new PrefixMap<Block>();
  for (const block of blocks) {
    for (const prefix of valuesOf(block.prefixes)) index.add(prefix, block);
  }
  const inUse = new Set<string>();
  const ofV1 = pods.filter((pod) =>
    pod.addresses.map((address) => {
      const holders = index.of(address);
      if (holders.some(({ reserved }) => !reserved)) return false;
      for (const { name } of holders) inUse.add(name);
      return holders.length > 0 || isPooled(address, pools);
    }).includes(true)
  );
  return { ...selectReplaceable(ofV1), inUse };
}

function isPooled(address: Address, pools: readonly Pool[]): boolean {
  return pools.some(({ subnets }) =>
    subnets.some((subnet) => subnet[address.family]?.contains(address))
  );
}
