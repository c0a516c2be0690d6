import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  addressBlockName,
  type AddressPool,
  BLOCK_REQUESTS,
  type BlockRequest,
  hasSameLayout,
  type Pool,
  tryPoolOf,
} from "../../../lib/api/mod.ts";
import { abortable, type TaskGroup } from "../../../lib/async/mod.ts";
import {
  type Indexes,
  Informer,
  type KubeClient,
  NODES,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import { NODE_LABEL, POOL_LABEL } from "../../../lib/names/mod.ts";
import {
  blockTransform,
  type CachedBlock,
  transformNode,
  transformPool,
  transformRequest,
} from "./transform.ts";

/**
 * How blocks are found: by "pool" and "node", the values of their labels; and by "alias", pool and index of a block
 * whose name does not follow from them. Those were taken over from v1, so that nearly no block costs memory there.
 */
export const BLOCK_INDEXES: Indexes<CachedBlock> = {
  pool: labelIndex(POOL_LABEL),
  node: labelIndex(NODE_LABEL),
  alias: ({ metadata, index }) => {
    const name = addressBlockName(metadata.labels?.[POOL_LABEL] ?? "", index);
    return metadata.name === name ? [] : [name];
  },
};

/** Caches of the controller: four kinds of objects, kept up to date by watches. */
export class Cluster {
  readonly pools: Informer<AddressPool>;
  /** Indexed by {@linkcode BLOCK_INDEXES}. */
  readonly blocks: Informer<CachedBlock>;
  readonly requests: Informer<BlockRequest>;
  readonly nodes: Informer<V1Node>;

  constructor(
    client: KubeClient,
    { onObject }: { readonly onObject: () => void },
  ) {
    this.pools = new Informer(client, ADDRESS_POOLS, {
      transform: transformPool,
    });
    const layouts = new Map<string, Pool>();
    this.pools.subscribe(({ type, object, key }) => {
      const pool = type === "deleted" ? undefined : tryPoolOf(object);
      if (pool === undefined) layouts.delete(key);
      else if (!hasSameLayout(pool, layouts.get(key))) layouts.set(key, pool);
    });
    this.blocks = new Informer<CachedBlock>(client, ADDRESS_BLOCKS, {
      transform: blockTransform({
        onBlock: onObject,
        layoutOf: (pool) => layouts.get(pool),
      }),
      indexes: BLOCK_INDEXES,
    });
    this.requests = new Informer(client, BLOCK_REQUESTS, {
      transform(request) {
        onObject();
        return transformRequest(request);
      },
    });
    this.nodes = new Informer(client, NODES, {
      transform(node) {
        onObject();
        return transformNode(node);
      },
    });
  }

  /** Starts the watches in the group. */
  start(group: TaskGroup): void {
    group.run("pool informer", (signal) => this.pools.run(signal));
    group.run("block informer", async (signal) => {
      // mutate: only saves memory; a block whose pool is known takes less.
      await abortable(this.pools.synced, signal);
      await this.blocks.run(signal);
    });
    group.run("request informer", (signal) => this.requests.run(signal));
    group.run("node informer", (signal) => this.nodes.run(signal));
  }

  /** Resolves after all first lists. */
  async synced(signal: AbortSignal): Promise<void> {
    const { pools, blocks, requests, nodes } = this;
    const all = [pools, blocks, requests, nodes].map(({ synced }) => synced);
    await abortable(Promise.all(all), signal);
  }
}

function labelIndex(label: string): (block: CachedBlock) => string[] {
  return ({ metadata }) => {
    const value = metadata.labels?.[label];
    return value === undefined ? [] : [value];
  };
}
