import { type Address, type Family, valuesOf } from "../../inet/mod.ts";
import { NetlinkError } from "../../netlink/mod.ts";
import {
  type ClientLimits,
  clientLimits,
  limitClients,
  refusedSet,
} from "../gateway_plan/client_limits.ts";
import { listSetIfAny } from "../kernel/list_set.ts";
import { isAddress } from "./clients.ts";
import { tableWithClients } from "./client_sets.ts";
import type { ServerKernel } from "./kernel.ts";
import { nodeSet, passPathProbes } from "../gateway_plan/path_probes.ts";
import type { ServerPlan } from "../gateway_plan/plan.ts";
import { guardProbes } from "../gateway_plan/probe_guard.ts";

/** The limits of each client as the kernel has them. */
export interface AppliedLimits extends ClientLimits {
  /** False when there should be limits, and the kernel cannot count connections (nft_connlimit, nft_limit). */
  readonly isSupported: boolean;
}

/** Makes the gateway's table, with these clients and the limits that go with the kernel's table of connections as it is now. */
export async function applyTable(
  { netfilter, conntrack }: Pick<ServerKernel, "netfilter" | "conntrack">,
  plan: ServerPlan,
  clients: readonly Address[],
): Promise<AppliedLimits> {
  const { max } = await conntrack.count();
  const limits = clientLimits(plan.maxFlowsPerClient, max);
  const replace = async (limits: AppliedLimits) => {
    await netfilter.replaceTable(tableOf(plan, { clients, limits }));
    return limits;
  };
  try {
    return await replace({ ...limits, isSupported: true });
  } catch (error) {
    // What the kernel says of an instruction that it does not know and has no module for.
    if (!(error instanceof NetlinkError && error.code === "ENOENT")) {
      throw error;
    }
  }
  return await replace({ isSupported: false });
}

/** Whether the gateway's table is as `applyTable()` made it, with these clients and limits. Changes nothing. */
export async function isTableWhole(
  { netfilter }: Pick<ServerKernel, "netfilter">,
  plan: ServerPlan,
  content: TableContent,
): Promise<boolean> {
  const differences = await netfilter.compareTable(tableOf(plan, content));
  return differences.length === 0;
}

/** What the gateway's table is to hold. */
interface TableContent {
  readonly clients: readonly Address[];
  readonly limits: AppliedLimits;
}

function tableOf(plan: ServerPlan, { clients, limits }: TableContent) {
  const { flows, flowsToOneAddress, isSupported } = limits;
  const hasLimits = flows !== undefined || flowsToOneAddress !== undefined;
  const limited = hasLimits ? limitClients(plan, limits) : plan;
  const planned = isSupported ? passPathProbes(guardProbes(limited)) : limited;
  return tableWithClients(planned, clients);
}

/** The clients that the kernel has refused a connection within the last minutes. */
export async function listLimited(
  { netfilter }: Pick<ServerKernel, "netfilter">,
  plan: ServerPlan,
): Promise<Address[]> {
  const limited: Address[] = [];
  for (const { family } of valuesOf(plan.families)) {
    limited.push(...await refusedOf(netfilter, plan, family));
  }
  return limited;
}

/** How many nodes have probed the gateway within the last minute; those of both families once. */
export async function countNodes(
  { netfilter }: Pick<ServerKernel, "netfilter">,
  { families, table }: ServerPlan,
): Promise<number> {
  let nodes = 0;
  for (const { family } of valuesOf(families)) {
    // Without the kernel's support the set does not exist.
    const probing = await listSetIfAny(netfilter, table.name, nodeSet(family));
    nodes = Math.max(nodes, probing.length);
  }
  return nodes;
}

async function refusedOf(
  netfilter: ServerKernel["netfilter"],
  { table }: ServerPlan,
  family: Family,
): Promise<Address[]> {
  // Without limits the set does not exist.
  const set = refusedSet(family);
  const elements = await listSetIfAny(netfilter, table.name, set);
  return elements.flatMap(([address]) => isAddress(address) ? [address] : []);
}
