import type { Family } from "../../inet/mod.ts";
import type { NftKeyType, NftRule, NftSet } from "../../netlink/mod.ts";
import type { ServerPlan } from "./plan.ts";

/** What a limit adds to a gateway's table. */
export interface TableParts {
  readonly sets: readonly NftSet[];
  /** They come last in their chain. */
  readonly rules: readonly NftRule[];
}

/** The plan with these parts too, the rules in that chain. */
export function addParts(
  plan: ServerPlan,
  chainName: string,
  parts: readonly TableParts[],
): ServerPlan {
  const { table } = plan;
  const rules = parts.flatMap((part) => part.rules);
  return {
    ...plan,
    table: {
      ...table,
      sets: [...table.sets, ...parts.flatMap(({ sets }) => sets)],
      chains: table.chains.map((chain) =>
        chain.name === chainName
          ? { ...chain, rules: [...chain.rules, ...rules] }
          : chain
      ),
    },
  };
}

/** The end of a set's name, by which those of the families differ. */
export function digitOf(family: Family): "4" | "6" {
  return family === "ipv4" ? "4" : "6";
}

/** Far more than a gateway has clients or probers; once a set is full, further ones are not limited. */
const MAX_ELEMENTS = 65_535;

/** A set that rules fill. */
export function dynamicSet(
  name: string,
  key: { readonly family: Family; readonly fields: number },
  timeoutMs?: number,
): NftSet {
  const type: NftKeyType = `${key.family}_addr`;
  return {
    name,
    key: Array.from({ length: key.fields }, () => type),
    elements: [],
    dynamic: {
      size: MAX_ELEMENTS,
      ...(timeoutMs !== undefined && { timeoutMs }),
    },
  };
}
