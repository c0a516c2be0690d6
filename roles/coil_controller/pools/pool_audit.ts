import {
  type AddressBlock,
  type AddressPool,
  blockIndexOf,
  type Pool,
  tryBlockOf,
  tryPoolOf,
} from "../../../lib/api/mod.ts";
import { sleep } from "../../../lib/async/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  ADDRESS_FINDING_CODES,
  addressesByFamily,
  type AddressFindingCode,
  addressFindings,
  type Finding,
  type PodAddresses,
  poolFinder,
} from "../../../lib/ipam/audit/mod.ts";
import {
  hasEnded,
  type KubeClient,
  PODS,
  splitKey,
  type Store,
} from "../../../lib/kube/mod.ts";
import { POOL_LABEL } from "../../../lib/names/mod.ts";
import { addressText, type CachedPod } from "../base/cached_pod.ts";
import { addressesOf, type CachedBlock } from "../ipam/transform.ts";

/** The most pods that one look asks the API server for. */
const MOST_PODS = 100;

/** After so many pods other work has its turn: there may be 150,000. */
const PODS_AT_ONCE = 1_000;

export interface PoolFinding extends Finding {
  readonly code: AddressFindingCode;
}

export interface PoolAuditOptions {
  readonly client: Pick<KubeClient, "tryGet">;
  /** All pods of the cluster that have addresses of their own. */
  readonly pods: Store<CachedPod>;
  readonly pools: Store<AddressPool>;
  readonly blocks: Store<CachedBlock>;
}

/**
 * Looks for what `coil ipam check` finds of pods' addresses and their blocks.
 *
 * The caches have no more of most pods than their addresses, and may be behind.
 * They say whom to suspect; what is found is of pods as the API server has them
 * now, which are few, since nearly none is suspected.
 */
export class PoolAudit {
  readonly #with: PoolAuditOptions;

  constructor(options: PoolAuditOptions) {
    this.#with = options;
  }

  /** Looks once. @throws as the client does, when a suspect cannot be read */
  async look(signal: AbortSignal): Promise<PoolFinding[]> {
    const pools = this.#with.pools.list();
    const known = pools.flatMap((pool) => tryPoolOf(pool) ?? []);
    const suspects = await this.#suspects(known, signal);
    const pods = await Promise.all(
      suspects.map((key) => this.#podOf(key, signal)),
    );
    const found = pods.flatMap((pod) => pod ?? []);
    const blocks = this.#blocksFor(found, known);
    return addressFindings({ pods: found, pools, blocks }).filter(isOurs);
  }

  /** Keys of pods that share an address of a pool, or have one of no block. */
  async #suspects(
    pools: readonly Pool[],
    signal: AbortSignal,
  ): Promise<string[]> {
    const { pods } = this.#with;
    const poolOf = poolFinder(pools);
    const allocated = this.#allocated();
    const isInBlock = (address: Address, pool: Pool) => {
      const index = blockIndexOf(pool, address);
      return index !== undefined && allocated.get(pool.name)?.has(index);
    };
    const holders = new Map<string, string>();
    const suspects = new Set<string>();
    for (const [n, key] of pods.keys().entries()) {
      if (n % PODS_AT_ONCE === PODS_AT_ONCE - 1) await sleep(0, { signal });
      if (suspects.size >= MOST_PODS) break;
      const pod = pods.get(key);
      const texts = pod === undefined ? [] : addressText(pod).split(" ");
      for (const text of texts) {
        const address = Address.tryParse(text);
        const pool = address && poolOf(address);
        if (address === undefined || pool === undefined) continue;
        const other = holders.get(text);
        if (other !== undefined) suspects.add(other).add(key);
        holders.set(text, key);
        if (isInBlock(address, pool)) continue;
        // Where pools overlap, it may be of another one.
        if (!pools.some((each) => isInBlock(address, each))) suspects.add(key);
      }
    }
    return [...suspects];
  }

  #allocated(): Map<string, Set<number>> {
    const allocated = new Map<string, Set<number>>();
    for (const { metadata, index } of this.#with.blocks.list()) {
      const pool = metadata.labels?.[POOL_LABEL] ?? "";
      allocated.getOrInsertComputed(pool, () => new Set()).add(index);
    }
    return allocated;
  }

  /** A suspect as it is now; undefined when its address is free by now. */
  async #podOf(
    key: string,
    signal: AbortSignal,
  ): Promise<PodAddresses | undefined> {
    const { namespace = "", name } = splitKey(key);
    const pod = await this.#with.client.tryGet(PODS, {
      namespace,
      name,
      signal,
    });
    if (pod === undefined) return undefined;
    const { metadata, spec } = pod;
    const isOver = metadata?.deletionTimestamp !== undefined || hasEnded(pod);
    if (isOver) return undefined;
    const addresses = addressesByFamily(pod);
    return { namespace, name, node: spec?.nodeName ?? "", addresses };
  }

  /** Blocks that have an address of these pods, and those that nothing can be of. */
  #blocksFor(
    pods: readonly PodAddresses[],
    pools: readonly Pool[],
  ): AddressBlock[] {
    const wanted = new Set<string>();
    for (const { addresses } of pods) {
      for (const address of Object.values(addresses)) {
        for (const pool of pools) {
          wanted.add(`${pool.name} ${blockIndexOf(pool, address)}`);
        }
      }
    }
    const names = new Set(this.#with.pools.keys());
    return this.#with.blocks.list().filter((block) => {
      const pool = block.metadata.labels?.[POOL_LABEL] ?? "";
      const isBroken = !names.has(pool) ||
        block.layout === undefined && tryBlockOf(block) === undefined;
      return isBroken || wanted.has(`${pool} ${block.index}`);
    }).map(wholeBlock);
  }
}

/** With its addresses, which the cache leaves out where they follow from the index. */
function wholeBlock({ layout, ...block }: CachedBlock): AddressBlock {
  if (layout === undefined) return block;
  const { ipv4, ipv6 } = addressesOf({ ...block, layout });
  return {
    ...block,
    ...(ipv4 && { ipv4: ipv4.toString() }),
    ...(ipv6 && { ipv6: ipv6.toString() }),
  };
}

function isOurs(finding: Finding): finding is PoolFinding {
  return ADDRESS_FINDING_CODES.some((code) => code === finding.code);
}
