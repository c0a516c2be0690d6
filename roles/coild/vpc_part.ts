import type { Address } from "../../lib/inet/mod.ts";
import { RestTable, VpcHost } from "../../lib/vpc/mod.ts";
import { connectIpam, type SupplyContext } from "./ipam_part.ts";
import type { NodeDependencies, NodePart } from "./node_part.ts";
import type { Supply } from "./blocks/supply.ts";
import { podName } from "./cluster/pod_status.ts";
import type { VpcOptions } from "./cloud/options.ts";
import { supplyOfVpc } from "./vpc/supply.ts";
import { CallsRecord } from "./vpc_report/calls_record.ts";
import { findingOf } from "./vpc_report/findings.ts";
import { serveIntrospection } from "./vpc_report/introspection.ts";
import { PermissionEvents } from "./vpc_report/permission_events.ts";
import { statusOf } from "./vpc_report/status.ts";
import { VpcNodeKeeper } from "./vpc_report/vpc_node_keeper.ts";

/** The node with addresses of its VPC. */
export function connectVpc(
  dependencies: NodeDependencies,
  vpc: VpcOptions,
): NodePart {
  return connectIpam(
    dependencies,
    (context) => connectSupply(dependencies, vpc, context),
  );
}

function connectSupply(
  dependencies: NodeDependencies,
  vpc: VpcOptions,
  { network, node, nodeEvents }: SupplyContext,
): Supply {
  const { client, options, pods, registry, stack } = dependencies;
  const calls = new CallsRecord();
  const permissions = new PermissionEvents({ nodeEvents });
  const supply = stack.use(supplyOfVpc({
    vpc,
    host: stack.use(VpcHost.open()),
    rests: stack.use(RestTable.open()),
    network,
    cooldownMs: options.cooldownMs,
    scheduling: () => node.scheduling,
    pods: () => pods.list(),
    env: Deno.env,
    registry,
    onAttempt(attempt) {
      // mutate: tests/apiserver/coild_vpc_show_test.ts takes a right away, and reads the conditions that come of it.
      calls.attempted(attempt);
      permissions.attempted(attempt);
    },
  }));
  const keeper = new VpcNodeKeeper({
    client,
    node: () => node.current,
    status(before) {
      const { view, records } = supply;
      const facts = { view, records, troubles: calls.troubles };
      return statusOf(facts, { before, now: new Date() });
    },
  });
  const introspection = {
    address: vpc.introspectionAddress,
    facts: async () => ({
      view: supply.view,
      records: supply.records ?? [],
      allocations: supply.allocations,
      resting: await supply.rests.list(),
      podOf: (address: Address) => pods.withAddress(address).map(podName)[0],
      now: new Date(),
    }),
  };
  return {
    ...supply,
    finding(error) {
      const { view, lastRefusal } = supply;
      const { troubles } = calls;
      return findingOf(error, { view, lastRefusal, troubles });
    },
    loops: {
      ...supply.loops,
      "VPCNode": (signal) => keeper.run(signal),
      "introspection": (signal) =>
        serveIntrospection({ ...introspection, signal }).finished,
    },
  };
}
