import { supplyOfPools } from "./blocks/pools.ts";
import { connectIpam } from "./ipam_part.ts";
import type { NodeDependencies, NodePart } from "./node_part.ts";

/** The node with addresses of AddressPools. */
export function connectPools(dependencies: NodeDependencies): NodePart {
  return connectIpam(
    dependencies,
    ({ node }) => supplyOfPools({ ...dependencies, node }),
  );
}
