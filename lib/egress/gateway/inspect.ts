import { valuesOf } from "../../inet/mod.ts";
import { type Netns, tryReadSysctl } from "../../linux/mod.ts";
import { describeRule } from "../../netlink/mod.ts";
import { sameRule } from "./apply.ts";
import { type AddressMap, clientRoutes } from "./clients.ts";
import type { ServerKernel } from "./kernel.ts";
import { type AppliedLimits, isTableWhole } from "./limits.ts";
import { REFUSAL_METRIC, type ServerPlan } from "../gateway_plan/plan.ts";
import type { ServerSysctl } from "../gateway_plan/family.ts";

/** What a gateway should be. */
export interface ExpectedServer {
  readonly plan: ServerPlan;
  readonly clients: AddressMap;
  readonly netns?: Netns | undefined;
  /** Whether to look at what is in the table of nftables, and the limits that it should have. */
  readonly table?: { readonly limits: AppliedLimits } | undefined;
}

/**
 * What of a gateway's links, rules, routes and sysctls is missing, in words,
 * and whether its table of nftables is. Changes nothing, and is much cheaper
 * than making all whole: what is in the table is looked at only if asked for.
 */
export async function findServerDamage(
  kernel: Pick<ServerKernel, "routes" | "netfilter">,
  { plan, clients, netns, table }: ExpectedServer,
): Promise<string[]> {
  const links = await kernel.routes.listLinks();
  const rules = await kernel.routes.listRules();
  const found: string[] = [];
  const { name } = plan.table;
  if (!await kernel.netfilter.tableExists(name)) {
    found.push(`nftables table "inet ${name}" is missing`);
  } else if (table !== undefined) {
    const has = { clients: [...clients.values()], limits: table.limits };
    if (!await isTableWhole(kernel, plan, has)) {
      found.push(`nftables table "inet ${name}" was changed`);
    }
  }
  for (const family of valuesOf(plan.families)) {
    const { name } = family.link;
    const link = links.find((each) => each.name === name);
    if (link?.up !== true) found.push(`link "${name}" is missing or down`);
    if (!rules.some((rule) => sameRule(rule, family.rule))) {
      found.push(`${describeRule(family.rule)} is missing`);
    }
    const routes = await kernel.routes.listRoutes({
      family: family.family,
      table: plan.routeTable,
    });
    const routed = new Set(
      clientRoutes(plan, routes).filter(({ index }) => index === link?.index)
        .map(({ destination }) => destination?.address.toString()),
    );
    for (const [text, client] of clients) {
      if (client.family !== family.family || routed.has(text)) continue;
      found.push(`route to client ${text} is missing`);
    }
    const refuses = routes.some(({ destination, metric, type }) =>
      destination === undefined && type === "unreachable" &&
      metric === REFUSAL_METRIC
    );
    if (!refuses) {
      found.push(
        `the ${family.family} route that rejects other packets is missing`,
      );
    }
    found.push(...wrongSysctls(family.sysctls, netns));
  }
  return found;
}

function wrongSysctls(
  sysctls: readonly ServerSysctl[],
  netns: Netns | undefined,
): string[] {
  return sysctls.flatMap(({ name, value, alsoGood }) => {
    const found = tryReadSysctl(name, { netns });
    // The link is not there, which is reported already.
    if (found === undefined) return [];
    if (found === value || alsoGood.includes(found)) return [];
    return [`sysctl "${name}" is ${found}`];
  });
}
