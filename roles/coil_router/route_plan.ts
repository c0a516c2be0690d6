import type { Block } from "../../lib/api/mod.ts";
import { type Address, type DualStack, FAMILIES } from "../../lib/inet/mod.ts";
import type { GatewayRoute } from "../../lib/routing/mod.ts";

/** The part of a block that its routes depend on. */
export type RoutedBlock = Pick<Block, "name" | "node" | "prefixes">;

/** Where to send what, and what could not be decided. */
export interface RoutePlan {
  readonly routes: readonly GatewayRoute[];
  /** Nodes that hold a block of a family of which they have no address. */
  readonly withoutAddress: readonly string[];
}

/**
 * Plans the routes to the blocks of all other nodes: each prefix of a block
 * through its node's address of the same family. Blocks of unknown nodes have
 * no route, they wait for the controller to collect them. Pure.
 */
export function planRoutes(options: {
  /** The node the routes are for. */
  readonly nodeName: string;
  /** Addresses of all nodes, by name. */
  readonly nodes: ReadonlyMap<string, DualStack<Address>>;
  readonly blocks: Iterable<RoutedBlock>;
}): RoutePlan {
  const routes: GatewayRoute[] = [];
  const withoutAddress = new Set<string>();
  const blocks = [...options.blocks].sort(byName);
  for (const { node, prefixes } of blocks) {
    const gateways = options.nodes.get(node);
    if (node === options.nodeName || gateways === undefined) continue;
    for (const family of FAMILIES) {
      const destination = prefixes[family];
      const gateway = gateways[family];
      if (destination === undefined) continue;
      if (gateway === undefined) withoutAddress.add(node);
      else routes.push({ destination, gateway });
    }
  }
  return { routes, withoutAddress: [...withoutAddress].sort() };
}

/** Should two blocks overlap, the same one wins on every node. */
function byName(a: RoutedBlock, b: RoutedBlock): number {
  return a.name < b.name ? -1 : Number(a.name > b.name);
}
