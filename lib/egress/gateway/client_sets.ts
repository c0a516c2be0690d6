import { type Address, type Family, valuesOf } from "../../inet/mod.ts";
import type { NftTable } from "../../netlink/mod.ts";
import type { ServerPlan } from "../gateway_plan/plan.ts";

/** The plan's table with these clients in its sets; those of other families are left out. */
export function tableWithClients(
  plan: ServerPlan,
  clients: readonly Address[],
): NftTable {
  const familyOf = new Map<string, Family>(
    valuesOf(plan.families).map(({ clientSet, family }) => [clientSet, family]),
  );
  return {
    ...plan.table,
    sets: plan.table.sets.map((set) => ({
      ...set,
      elements: clients
        .filter((address) => address.family === familyOf.get(set.name))
        .map(clientElement),
    })),
  };
}

/** A client in a set: its address as outer and as inner source. */
export function clientElement(address: Address): readonly [Address, Address] {
  return [address, address];
}
