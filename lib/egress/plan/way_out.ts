import type { Address, Prefix } from "../../inet/mod.ts";
import { MAIN_TABLE } from "../../netlink/mod.ts";
import type { ClientPlan, ClientRoute, ClientTunnel } from "./plan.ts";

/**
 * Where the kernel sends a packet of a client's own: into the tunnel to an
 * Egress, nowhere, or by the main table, as if there were no Egress.
 */
export type WayOut =
  | {
    readonly kind: "egress";
    readonly tunnel: ClientTunnel;
    /** The Egress' destination that has the address. */
    readonly destination: Prefix;
  }
  | { readonly kind: "refused"; readonly destination: Prefix }
  | {
    readonly kind: "main";
    /** The network that always goes this way; absent where no Egress has the address. */
    readonly network?: Prefix | undefined;
  };

/**
 * Looks an address up in a plan as the kernel does in rules and routes. Pure.
 * Where the client itself chooses the gateway, it is the tunnel to the Service
 * all the same.
 */
export function wayOut(plan: ClientPlan, to: Address): WayOut {
  const rules = plan.rules.toSorted((a, b) => a.priority - b.priority);
  for (const { family, table, destination: network } of rules) {
    if (family !== to.family) continue;
    if (network?.contains(to) === false) continue;
    if (table === MAIN_TABLE) return { kind: "main", network };
    const route = bestRoute(plan.routes, table, to);
    if (route === undefined || route.kind === "throw") continue;
    const { destination } = route;
    if (route.kind !== "tunnel") return { kind: "refused", destination };
    const tunnel = plan.tunnels.find(({ name }) => name === route.tunnel);
    if (tunnel !== undefined) return { kind: "egress", tunnel, destination };
  }
  return { kind: "main" };
}

/** The longest prefix; of one prefix, the refusal is the last, as its metric says. */
function bestRoute(
  routes: readonly ClientRoute[],
  table: number,
  to: Address,
): ClientRoute | undefined {
  return routes
    .filter((route) => route.table === table && route.destination.contains(to))
    // Stable, and a plan's refusals follow the routes that they stand behind.
    .toSorted((a, b) => b.destination.length - a.destination.length)[0];
}
