import { type Address, type Family, valuesOf } from "../../inet/mod.ts";
import { NetlinkError } from "../../netlink/mod.ts";
import {
  type ClientLimits,
  clientLimits,
  limitClients,
  refusedSet,
} from "./client_limits.ts";
import { isAddress } from "./clients.ts";
import { tableWithClients } from "./client_sets.ts";
import type { ServerKernel } from "./kernel.ts";
import type { ServerPlan } from "./plan.ts";

/** The limits of each client as the kernel has them. */
export interface AppliedLimits extends ClientLimits {
  /** False when there should be limits, and the kernel cannot count connections (nft_connlimit). */
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
  const replace = (limits: ClientLimits) =>
    netfilter.replaceTable(tableOf(plan, { clients, limits }));
  if (limits === undefined) {
    await replace({});
    return { isSupported: true };
  }
  try {
    await replace(limits);
    return { ...limits, isSupported: true };
  } catch (error) {
    // What the kernel says of an instruction that it does not know and has no module for.
    if (!(error instanceof NetlinkError && error.code === "ENOENT")) {
      throw error;
    }
  }
  await replace({});
  return { isSupported: false };
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
  /** Of each client; empty for none. */
  readonly limits: ClientLimits;
}

function tableOf(plan: ServerPlan, { clients, limits }: TableContent) {
  const { flows, flowsToOneAddress } = limits;
  const hasLimits = flows !== undefined || flowsToOneAddress !== undefined;
  const planned = hasLimits ? limitClients(plan, limits) : plan;
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

async function refusedOf(
  netfilter: ServerKernel["netfilter"],
  { table }: ServerPlan,
  family: Family,
): Promise<Address[]> {
  try {
    const elements = await netfilter.listSet(table.name, refusedSet(family));
    return elements.flatMap(([address]) => isAddress(address) ? [address] : []);
  } catch (error) {
    // There are no limits.
    if (error instanceof NetlinkError && error.code === "ENOENT") return [];
    throw error;
  }
}
