import { ADDRESS_BLOCKS, internalAddresses } from "../../../lib/api/mod.ts";
import { sleep } from "../../../lib/async/mod.ts";
import { valuesOf } from "../../../lib/inet/mod.ts";
import {
  type KubeClient,
  type Store,
  unlessGone,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import { NODE_ADDRESSES_ANNOTATION } from "../../../lib/names/mod.ts";
import type { CachedBlock } from "../ipam/transform.ts";

/** The most writes in a second: each is an event for every coil-router. */
const PACE_MS = 100;

export interface NodeAddressKeeperOptions {
  readonly client: KubeClient;
  /** All blocks, with the index "node". */
  readonly blocks: Store<CachedBlock>;
  readonly nodes: Store<V1Node>;
}

/** Keeps the addresses of nodes in the annotation of their blocks, from which coil-router makes routes. */
export class NodeAddressKeeper {
  readonly #options: NodeAddressKeeperOptions;

  constructor(options: NodeAddressKeeperOptions) {
    this.#options = options;
  }

  /** Whether a block has to be written. */
  isStale({ metadata }: CachedBlock, node: string): boolean {
    const wanted = nodeAddressesText(this.#options.nodes.get(node));
    const written = metadata.annotations?.[NODE_ADDRESSES_ANNOTATION];
    if (wanted === undefined || wanted === written) return false;
    // A node that has lost its addresses keeps those that it had.
    if (wanted === "" && written !== undefined) return false;
    return metadata.deletionTimestamp === undefined;
  }

  /** Writes the node's addresses to its blocks. A node that is gone, or has none left, changes nothing. */
  async reconcile(node: string, signal: AbortSignal): Promise<void> {
    const { client, blocks, nodes } = this.#options;
    for (const block of blocks.byIndex("node", node)) {
      if (!this.isStale(block, node)) continue;
      const { name = "", uid } = block.metadata;
      const text = nodeAddressesText(nodes.get(node));
      const annotations = { [NODE_ADDRESSES_ANNOTATION]: text };
      const patch = { metadata: { uid, annotations } };
      // Another block of that name comes by itself.
      await unlessGone(() =>
        client.patch(ADDRESS_BLOCKS, { name, signal }, patch, { kind: "merge" })
      );
      await sleep(PACE_MS, { signal });
    }
  }
}

/** A node's addresses as in the annotation: empty when it has none, undefined when there is no such node. */
export function nodeAddressesText(
  node: V1Node | undefined,
): string | undefined {
  return node && valuesOf(internalAddresses(node)).join();
}
