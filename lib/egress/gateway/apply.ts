import { type Address, FAMILIES, valuesOf } from "../../inet/mod.ts";
import {
  type Link,
  linkDeletions,
  NetlinkError,
  type Route,
  routeDelete,
  routeReplace,
  type Rule,
  ruleAdd,
  ruleDelete,
} from "../../netlink/mod.ts";
import { addFouPorts, removeFouPorts } from "../kernel/fou_ports.ts";
import {
  clientRoute,
  deleteRoutes,
  findClients,
  type FoundClients,
  type TunnelIndexes,
} from "./clients.ts";
import { type AppliedLimits, applyTable } from "./limits.ts";
import {
  ensureSysctl,
  type ServerKernel,
  type ServerOptions,
} from "./kernel.ts";
import { ensureServerLink, leftoverLinks, leftoverPorts } from "./links.ts";
import {
  REFUSAL_METRIC,
  SERVER_LINK_NAMES,
  type ServerPlan,
} from "../gateway_plan/plan.ts";
import type { ServerFamily } from "../gateway_plan/family.ts";

/** What `applyServer()` leaves behind. */
export interface AppliedServer {
  /** The indexes of the tunnel devices. */
  readonly links: TunnelIndexes;
  /** The clients found, which are now complete. */
  readonly clients: FoundClients["all"];
  /** What each client may have. */
  readonly limits: AppliedLimits;
}

/**
 * Makes the kernel match the plan, from any state that an earlier gateway, ours or
 * upstream Coil's, left: its clients are kept. Idempotent, and can be cut short
 * anywhere. Ports of an earlier gateway go first: the new table guards
 * only its own, and the links by which the others are known are changed later.
 * No client is let in before all is in place: the guard comes next, the port of
 * the tunnel last. What else is not needed goes at the very end, so that
 * connections of the clients go on all the while.
 */
export async function applyServer(
  kernel: ServerKernel,
  plan: ServerPlan,
  options: ServerOptions,
): Promise<AppliedServer> {
  const before = await kernel.routes.listLinks();
  await removeFouPorts(kernel.fou, leftoverPorts(before, plan));
  const found = await findClients(kernel, plan, indexesOf(before));
  const clients = found.all;
  const limits = await applyTable(kernel, plan, [...clients.values()]);
  const links = new Map<ServerFamily["family"], number>();
  for (const family of valuesOf(plan.families)) {
    links.set(
      family.family,
      await ensureServerLink(kernel.routes, plan, family),
    );
    for (const sysctl of family.sysctls) ensureSysctl(sysctl, options);
  }
  await kernel.routes.execute([
    ...valuesOf(plan.families).map((family) => refusal(plan, family)),
    ...unrouted(found, indexesOf(before), links)
      .map((client) => clientRoute(plan, client, links)),
  ]);
  await ensureRules(kernel, plan);
  // mutate: before or after the next; leftovers have no port any longer.
  await addFouPorts(kernel.fou, {
    wanted: valuesOf(plan.families).map(({ fouPort }) => fouPort),
    present: await kernel.fou.list(),
  });
  await removeLeftovers(kernel, plan, { before, clients });
  return { links, clients, limits };
}

function indexesOf(links: readonly Link[]): TunnelIndexes {
  return new Map(FAMILIES.flatMap((family) => {
    const link = links.find(({ name }) => name === SERVER_LINK_NAMES[family]);
    return link === undefined ? [] : [[family, link.index] as const];
  }));
}

/** The clients whose routes are missing or lead to another link than the tunnel device that there is now. */
function unrouted(
  { all, routed }: FoundClients,
  before: TunnelIndexes,
  now: TunnelIndexes,
): Address[] {
  return all.entries().filter(([key, { family }]) =>
    !routed.has(key) || before.get(family) !== now.get(family)
  ).map(([, client]) => client).toArray();
}

/**
 * What comes from outside and is not a client's is refused. Without this it would
 * be looked up in the main table and leave by the interface it came in by: an
 * answer to a former client, with the sender's address and no translation.
 */
function refusal(plan: ServerPlan, { family }: ServerFamily) {
  return routeReplace({
    family,
    type: "unreachable",
    metric: REFUSAL_METRIC,
    table: plan.routeTable,
    protocol: plan.routeProtocol,
    scope: "global",
  });
}

async function ensureRules(
  { routes }: Pick<ServerKernel, "routes">,
  plan: ServerPlan,
): Promise<void> {
  const present = await routes.listRules();
  const missing = valuesOf(plan.families).map(({ rule }) => rule)
    .filter((rule) => !present.some((other) => sameRule(other, rule)));
  for (const error of await routes.tryExecute(missing.map((r) => ruleAdd(r)))) {
    // Another process was faster.
    if (error !== undefined && error.code !== "EEXIST") throw error;
  }
}

/** Upstream Coil's rule is the same one. */
export function sameRule(a: Rule, b: Rule): boolean {
  return a.family === b.family && a.priority === b.priority &&
    a.table === b.table && a.iif === b.iif && a.source === undefined &&
    a.destination === undefined && a.fwmark === undefined;
}

/** Deletes what an earlier gateway had and this plan has not. */
async function removeLeftovers(
  kernel: ServerKernel,
  plan: ServerPlan,
  found: {
    readonly before: readonly Link[];
    readonly clients: FoundClients["all"];
  },
): Promise<void> {
  await removeRoutes(kernel, plan, found.clients);
  await removeRules(kernel, plan);
  await removeLinks(kernel, {
    leftover: leftoverLinks(found.before, plan),
    present: found.before,
  });
}

async function removeRoutes(
  kernel: ServerKernel,
  plan: ServerPlan,
  clients: FoundClients["all"],
): Promise<void> {
  const surplus: Route[] = [];
  for (const family of FAMILIES) {
    const routes = await known(() =>
      kernel.routes.listRoutes({ family, table: plan.routeTable })
    );
    surplus.push(
      ...routes.filter((route) =>
        route.protocol === plan.routeProtocol &&
        !isPlanned(plan, clients, route)
      ),
    );
  }
  await deleteRoutes(
    kernel,
    surplus.map(({ family, destination, metric, index, table, protocol }) =>
      routeDelete({ family, destination, metric, index, table, protocol })
    ),
  );
}

function isPlanned(
  plan: ServerPlan,
  clients: FoundClients["all"],
  { family, destination, metric, type }: Route,
): boolean {
  if (plan.families[family] === undefined) return false;
  if (destination === undefined) {
    return type === "unreachable" && metric === REFUSAL_METRIC;
  }
  return type === "unicast" && destination.hostBits === 0 &&
    clients.has(destination.address.toString());
}

/** Rules of a family that is no longer served, or of another interface. */
async function removeRules(
  { routes }: Pick<ServerKernel, "routes">,
  plan: ServerPlan,
): Promise<void> {
  const planned = valuesOf(plan.families).map(({ rule }) => rule);
  const [like] = planned;
  if (like === undefined) return;
  const rules = await routes.listRules();
  const surplus = rules.filter((rule) =>
    rule.priority === like.priority && rule.table === like.table &&
    rule.iif !== undefined &&
    !planned.some((wanted) => sameRule(rule, wanted))
  );
  await routes.execute(surplus.map(ruleDelete));
}

async function removeLinks(
  { routes }: Pick<ServerKernel, "routes">,
  { leftover, present }: {
    readonly leftover: readonly Link[];
    readonly present: readonly Link[];
  },
): Promise<void> {
  if (leftover.length === 0) return;
  const indexes = leftover.map(({ index }) => index);
  await routes.execute(linkDeletions(indexes, { present }));
}

/** EAFNOSUPPORT and EOPNOTSUPP: a kernel started without IPv6 has nothing of it. */
async function known<T>(list: () => Promise<T[]>): Promise<T[]> {
  try {
    return await list();
  } catch (error) {
    const unknown = error instanceof NetlinkError &&
      ["EAFNOSUPPORT", "EOPNOTSUPP"].includes(error.code);
    if (unknown) return [];
    throw error;
  }
}

/** Removes everything of a gateway; what others made stays. */
export async function clearServer(
  kernel: ServerKernel,
  plan: ServerPlan,
): Promise<void> {
  const links = await kernel.routes.listLinks();
  const nothing: ServerPlan = { ...plan, families: {} };
  const ports = valuesOf(plan.families).map(({ fouPort }) => fouPort);
  await removeFouPorts(kernel.fou, ports);
  await removeRoutes(kernel, nothing, new Map());
  const planned = valuesOf(plan.families).map(({ rule }) => rule);
  const rules = await kernel.routes.listRules();
  const own = rules.filter((rule) =>
    planned.some((each) => sameRule(rule, each))
  );
  // mutate: the ports are gone, so the order of the rest does not matter.
  await kernel.routes.execute(own.map(ruleDelete));
  await removeLinks(kernel, {
    leftover: leftoverLinks(links, nothing),
    present: links,
  });
  await kernel.netfilter.deleteTable(plan.table.name);
}
