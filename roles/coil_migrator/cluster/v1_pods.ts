import type { Block, Pool } from "../../../lib/api/mod.ts";
import { type Address, FAMILIES, Prefix } from "../../../lib/inet/mod.ts";
import { compareText, nameText } from "../../../lib/names/mod.ts";
import type { LivePod } from "../../../lib/eviction/mod.ts";

/** Why a pod is not replaced. */
export type KeepReason = "no controller" | "static pod";

/** The pods that v1 gave their addresses. */
export interface V1Pods {
  /** Those whose controller recreates them, by node, namespace and name. */
  readonly toReplace: readonly LivePod[];
  /** Those that would be gone for good. */
  readonly kept: readonly { readonly pod: LivePod; readonly why: KeepReason }[];
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
  const lookUp = new BlockLookup(blocks);
  const toReplace: LivePod[] = [];
  const kept: { pod: LivePod; why: KeepReason }[] = [];
  const inUse = new Set<string>();
  for (const pod of pods) {
    const isV1 = pod.addresses.map((address) => {
      const holders = lookUp.of(address);
      if (holders.some(({ reserved }) => !reserved)) return false;
      for (const { name } of holders) inUse.add(name);
      return holders.length > 0 || isPooled(address, pools);
    }).includes(true);
    if (!isV1) continue;
    if (pod.isStatic) kept.push({ pod, why: "static pod" });
    else if (pod.controller === undefined) {
      kept.push({ pod, why: "no controller" });
    } else toReplace.push(pod);
  }
  return {
    toReplace: toReplace.toSorted(byPlace),
    kept: kept.toSorted((a, b) => byPlace(a.pod, b.pod)),
    inUse,
  };
}

function isPooled(address: Address, pools: readonly Pool[]): boolean {
  return pools.some(({ subnets }) =>
    subnets.some((subnet) => subnet[address.family]?.contains(address))
  );
}

function byPlace(a: LivePod, b: LivePod): number {
  return compareText(a.node, b.node) || compareText(nameText(a), nameText(b));
}

/** Finds the blocks that have an address, however many there are. */
class BlockLookup {
  readonly #byPrefix = new Map<string, Block[]>();
  readonly #lengths = new Map<string, Set<number>>();

  constructor(blocks: readonly Block[]) {
    for (const block of blocks) {
      for (const family of FAMILIES) {
        const prefix = block.prefixes[family];
        if (prefix === undefined) continue;
        const key = prefix.toString();
        const known = this.#byPrefix.get(key) ?? [];
        this.#byPrefix.set(key, [...known, block]);
        const lengths = this.#lengths.get(family) ?? new Set();
        this.#lengths.set(family, lengths.add(prefix.length));
      }
    }
  }

  of(address: Address): Block[] {
    return [...this.#lengths.get(address.family) ?? []].flatMap((length) =>
      this.#byPrefix.get(Prefix.of(address, length).toString()) ?? []
    );
  }
}
