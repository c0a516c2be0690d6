import { type Address, type Family, valuesOf } from "../../inet/mod.ts";
import { NetlinkError } from "../../netlink/mod.ts";
import {
  type ClientLimits,
  clientLimits,
  limitClients,
  refusedSet,
} from "./client_limits.ts";
import { isAddress } from "./clients.ts";
import { tableWithClients } from "./format.ts";
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
  const replace = (planned: ServerPlan) =>
    netfilter.replaceTable(tableWithClients(planned, clients));
  if (limits === undefined) {
    await replace(plan);
    return { isSupported: true };
  }
  try {
    await replace(limitClients(plan, limits));
    return { ...limits, isSupported: true };
  } catch (error) {
    // What the kernel says of an instruction that it does not know and has no module for.
    if (!(error instanceof NetlinkError && error.code === "ENOENT")) {
      throw error;
    }
  }
  await replace(plan);
  return { isSupported: false };
}

/** Whether the gateway's table is as `applyTable()` made it, with these clients and limits. Changes nothing. */
export async function isTableWhole(
  { netfilter }: Pick<ServerKernel, "netfilter">,
  plan: ServerPlan,
  { clients, limits }: {
    readonly clients: readonly Address[];
    readonly limits: AppliedLimits;
  },
): Promise<boolean> {
  const { isSupported: _, ...applied } = limits;
  const hasLimits = Object.keys(applied).length > 0;
  const planned = hasLimits ? limitClients(plan, applied) : plan;
  const table = tableWithClients(planned, clients);
  return (await netfilter.compareTable(table)).length === 0;
}

/** The clients of whom the kernel has refused something within the last minutes. */
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
