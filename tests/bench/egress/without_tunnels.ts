// A client on a kernel without Foo over UDP: all of it but the tunnels and the
// ports that receive from them.
import {
  applyClient,
  type ApplyOptions,
  type ClientPlan,
  type ClientReport,
} from "../../../lib/egress/mod.ts";
import { clientTable } from "../../../lib/egress/plan/table.ts";
import type { Netns } from "../../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  type NftNewTable,
  prepareTable,
} from "../../../lib/netlink/mod.ts";

/** As many rules and routes, none of which needs a tunnel. */
export function withoutTunnels(plan: ClientPlan): ClientPlan {
  return {
    ...plan,
    tunnels: [],
    tunnelFamilies: [],
    receiverFamilies: [],
    routes: plan.routes.map((route) =>
      route.kind === "tunnel"
        ? {
          kind: "throw",
          destination: route.destination,
          table: route.table,
        }
        : route
    ),
  };
}

/** Rules, routes and the nft table at the same time, as for a new pod. */
export async function applyWithoutTunnels(
  plan: ClientPlan,
  options: ApplyOptions,
): Promise<ClientReport> {
  const [report] = await Promise.all([
    applyClient(withoutTunnels(plan), options),
    makeGuard(plan, options.netns),
  ]);
  return report;
}

/** Made once, as for clients of the same gateways. */
const guards = new Map<string, NftNewTable>();

async function makeGuard(plan: ClientPlan, netns: Netns): Promise<void> {
  const { senders, choices } = plan;
  const key = `${senders.join(" ")} ${JSON.stringify(choices)}`;
  const guard = guards.get(key) ??
    prepareTable(clientTable(plan, { interfaces: [] }));
  guards.set(key, guard);
  using nft = NetfilterSocket.open({ netns });
  await nft.createTable(guard);
}
