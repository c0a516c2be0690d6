import { RestTable, VpcHost } from "../../lib/vpc/mod.ts";
import { connectIpam } from "./ipam_part.ts";
import type { NodeDependencies, NodePart } from "./node_part.ts";
import type { VpcOptions } from "./vpc/options.ts";
import { supplyOfVpc } from "./vpc/supply.ts";

/** The node with addresses of its VPC. */
export function connectVpc(
  dependencies: NodeDependencies,
  vpc: VpcOptions,
): NodePart {
  const { options, stack } = dependencies;
  const host = stack.use(VpcHost.open());
  const rests = stack.use(RestTable.open());
  return connectIpam(dependencies, ({ network }) =>
    stack.use(
      supplyOfVpc({
        vpc,
        host,
        rests,
        network,
        cooldownMs: options.cooldownMs,
        env: Deno.env,
        registry: dependencies.registry,
      }),
    ));
}
