import {
  type Address,
  FAMILIES,
  type Family,
  Prefix,
  valuesOf,
} from "../../inet/mod.ts";
import {
  type Request,
  type Route,
  routeDelete,
  routeReplace,
} from "../../netlink/mod.ts";
import { listSetIfAny } from "../kernel/list_set.ts";
import { clientElement } from "./client_sets.ts";
import type { ServerKernel } from "./kernel.ts";
import type { ServerPlan } from "../gateway_plan/plan.ts";
import type { ServerFamily } from "../gateway_plan/family.ts";

/** An address that was not made a client. */
export interface SkippedClient {
  readonly address: Address;
  /** `own`: it is the gateway's; `family`: the gateway has no address of its family. */
  readonly reason: "own" | "family";
}

/** The result of a change of clients. */
export interface ClientChange {
  /** Clients that are new. */
  readonly added: readonly Address[];
  /** Addresses that are no longer clients. */
  readonly removed: readonly Address[];
  /** Addresses that cannot be clients. */
  readonly skipped: readonly SkippedClient[];
}

/** Addresses by their text. */
export type AddressMap = ReadonlyMap<string, Address>;

/** Former clients whose connections are still to be forgotten, by their text. */
export type FormerClients = Map<string, Address>;

/** The part of the kernel that a change of clients needs. */
export interface ClientKernel {
  readonly routes: Pick<ServerKernel["routes"], "execute" | "tryExecute">;
  readonly netfilter: Pick<ServerKernel["netfilter"], "changeSet">;
  readonly conntrack: Pick<ServerKernel["conntrack"], "deleteWhere">;
}

/** The indexes of the tunnel devices. */
export type TunnelIndexes = ReadonlyMap<Family, number>;

/** What the kernel has of clients. */
export interface FoundClients {
  /** All addresses that have a route or are in a set. */
  readonly all: AddressMap;
  /** Those of them that have a route through the tunnel device. */
  readonly routed: AddressMap;
}

/** Splits addresses into those that can be clients, each once, and others. */
export function admit(
  plan: ServerPlan,
  addresses: readonly Address[],
): {
  readonly clients: Map<string, Address>;
  readonly skipped: SkippedClient[];
} {
  const clients = new Map<string, Address>();
  const skipped: SkippedClient[] = [];
  for (const address of addresses) {
    const family = plan.families[address.family];
    if (family === undefined) skipped.push({ address, reason: "family" });
    else if (family.address.equals(address)) {
      skipped.push({ address, reason: "own" });
    } else clients.set(address.toString(), address);
  }
  return { clients, skipped };
}

/** Routes of clients, to whichever link: one address each, made by us or by upstream Coil. */
export function clientRoutes(
  plan: ServerPlan,
  routes: readonly Route[],
): Route[] {
  return routes.filter(({ destination, protocol, table, type }) =>
    table === plan.routeTable && protocol === plan.routeProtocol &&
    type === "unicast" && destination?.hostBits === 0 &&
    plan.families[destination.family] !== undefined
  );
}

/** Reads the clients that the kernel has. `links` are the tunnel devices, as far as there are any yet. */
export async function findClients(
  kernel: Pick<ServerKernel, "routes" | "netfilter">,
  plan: ServerPlan,
  links: TunnelIndexes,
): Promise<FoundClients> {
  const all = new Map<string, Address>();
  const routed = new Map<string, Address>();
  for (const family of valuesOf(plan.families)) {
    const routes = await kernel.routes.listRoutes({
      family: family.family,
      table: plan.routeTable,
    });
    for (const { destination, index } of clientRoutes(plan, routes)) {
      if (destination === undefined) continue;
      const key = destination.address.toString();
      all.set(key, destination.address);
      if (index === links.get(family.family)) {
        routed.set(key, destination.address);
      }
    }
    for (const address of await listedClients(kernel, plan, family)) {
      all.set(address.toString(), address);
    }
  }
  return { all, routed };
}

async function listedClients(
  { netfilter }: Pick<ServerKernel, "netfilter">,
  plan: ServerPlan,
  family: ServerFamily,
): Promise<Address[]> {
  const elements = await listSetIfAny(
    netfilter,
    plan.table.name,
    family.clientSet,
  );
  return elements.flatMap(([outer]) => isAddress(outer) ? [outer] : []);
}

/** Whether it is an address, of what an element of a set can be. */
export function isAddress(
  value: Address | string | number | undefined,
): value is Address {
  return typeof value === "object";
}

/**
 * Adds and removes clients. A new one has its route before it may send, so
 * that its first answer finds the way; one that goes may no longer send before its
 * route goes, and then what the kernel remembers of its connections is thrown
 * away: else answers that are still under way would go to the next holder of the address.
 * Clients for which that failed stay in `former`; no client is let in before it is done.
 *
 * @throws {NetlinkError} when the kernel refuses; some of it may be done
 */
export async function changeClients(
  kernel: ClientKernel,
  plan: ServerPlan,
  change: {
    readonly add: readonly Address[];
    readonly remove: readonly Address[];
    readonly links: TunnelIndexes;
    readonly former: FormerClients;
  },
): Promise<void> {
  const { add, remove, links, former } = change;
  await forgetConnections(kernel, former);
  await kernel.routes.execute(
    add.map((address) => clientRoute(plan, address, links)),
  );
  for (const { family, clientSet } of valuesOf(plan.families)) {
    const elements = (addresses: readonly Address[]) =>
      addresses.filter((address) => address.family === family)
        .map(clientElement);
    const [added, removed] = [elements(add), elements(remove)];
    if (added.length + removed.length === 0) continue;
    await kernel.netfilter.changeSet({
      table: plan.table.name,
      set: clientSet,
      add: added,
      remove: removed,
    });
  }
  for (const address of remove) former.set(address.toString(), address);
  await deleteRoutes(kernel, remove.map((address) => noRoute(plan, address)));
  await forgetConnections(kernel, former);
}

/** The route to a client, in place of one to another link. */
export function clientRoute(
  plan: ServerPlan,
  address: Address,
  links: TunnelIndexes,
): Request {
  return routeReplace({
    family: address.family,
    destination: Prefix.host(address),
    index: links.get(address.family),
    table: plan.routeTable,
    protocol: plan.routeProtocol,
  });
}

function noRoute(plan: ServerPlan, address: Address): Request {
  return routeDelete({
    family: address.family,
    destination: Prefix.host(address),
    table: plan.routeTable,
    protocol: plan.routeProtocol,
  });
}

/** Deletes routes; ignores those that are already gone. */
export async function deleteRoutes(
  { routes }: { readonly routes: Pick<ServerKernel["routes"], "tryExecute"> },
  requests: readonly Request[],
): Promise<void> {
  if (requests.length === 0) return;
  for (const error of await routes.tryExecute(requests)) {
    if (error !== undefined && error.code !== "ESRCH") throw error;
  }
}

/** Empties `former` when it is done. */
async function forgetConnections(
  { conntrack }: Pick<ClientKernel, "conntrack">,
  former: FormerClients,
): Promise<void> {
  for (const family of FAMILIES) {
    const gone = new Set(
      former.values().filter((client) => client.family === family)
        .map(({ value }) => value),
    );
    if (gone.size === 0) continue;
    await conntrack.deleteWhere(
      ({ originalSource }) => gone.has(originalSource.value),
      { family },
    );
  }
  former.clear();
}
