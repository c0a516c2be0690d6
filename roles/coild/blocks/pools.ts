import { waterStock } from "../../../lib/ipam/mod.ts";
import type { KubeClient } from "../../../lib/kube/mod.ts";
import type { NodeSource } from "../cluster/node_source.ts";
import { BlockClient } from "./client.ts";
import { BlockRequests } from "./requests.ts";
import type { Supply } from "./supply.ts";
import { waterMarksFor } from "./water_marks.ts";

/** Blocks are looked at one by one; all are listed after about so many comparisons with the kernel. */
const LISTS_EVERY = 12;

/** Blocks of AddressPools, which the controller allocates. */
export function supplyOfPools(
  { client, node, nodeName, options }: {
    readonly client: KubeClient;
    readonly node: NodeSource;
    readonly nodeName: string;
    readonly options: {
      readonly lowWater: number;
      readonly reconcileIntervalMs: number;
    };
  },
): Supply {
  const { lowWater, reconcileIntervalMs } = options;
  const requests = new BlockRequests({
    client,
    node,
    onLateAnswer: (block) => blocks.expect(block),
  });
  const blocks = new BlockClient({
    client,
    nodeName,
    requests,
    lookMs: reconcileIntervalMs,
  });
  return {
    exports: true,
    ipam: {
      source: blocks,
      stock: waterStock(waterMarksFor(lowWater)),
      relistMs: LISTS_EVERY * reconcileIntervalMs,
    },
    get synced() {
      return blocks.synced;
    },
    loops: { ...requests.loops, ...blocks.loops },
    poolNames: () => blocks.poolNames(),
    follow(ipam) {
      const stack = new DisposableStack();
      stack.use(blocks.onBlocksChanged((list) => ipam.onBlocksChanged(list)));
      stack.use(blocks.onPoolsChanged(() => ipam.onPoolsChanged()));
      return stack;
    },
  };
}
