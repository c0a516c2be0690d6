import type { Family } from "../../inet/mod.ts";
import {
  VPC_BLOCK_END_PRIORITY,
  VPC_BLOCK_PRIORITY,
  VPC_ENI_PRIORITY,
  VPC_ENI_TABLES,
  VPC_NODE_PORT_PRIORITY,
  VPC_PROTOCOL,
} from "../../names/mod.ts";
import {
  addressAdd,
  type AddressEntry,
  describeRule,
  type Link,
  linkSet,
  MAIN_TABLE,
  PROTOCOL_KERNEL,
  type Request,
  type Route,
  routeDelete,
  routeReplace,
  type RouteTarget,
  type Rule,
  ruleAdd,
  ruleDelete,
} from "../../netlink/mod.ts";
import type { PlannedLink, VpcHostPlan } from "./host_plan.ts";
import type { VpcHostSettings } from "./host_settings.ts";
import { VpcHostProblem } from "./host_problem.ts";

/** The kernel's state of a {@linkcode VpcHostPlan}. */
export interface FoundVpcHost {
  /** The families that the kernel has. */
  readonly families: readonly Family[];
  readonly links: readonly Link[];
  readonly addresses: readonly AddressEntry[];
  /** Those of {@linkcode VPC_PROTOCOL} in any table, and the kernel's own of the main table. */
  readonly routes: readonly Route[];
  readonly rules: readonly Rule[];
  /** `accept_ra` of the primary ENI's link. */
  readonly acceptRa: string | undefined;
}

/** One change, as words complete "Cannot …" for admins. */
export interface Change {
  readonly text: string;
  /** Absent: of links, which both families need. */
  readonly family?: Family;
  readonly request: Request;
}

/** Changes that make the node as planned. */
export interface VpcHostChanges {
  readonly add: readonly Change[];
  /** To be carried out after all of `add`. */
  readonly remove: readonly Change[];
  /** The link whose `accept_ra` is to be 2. */
  readonly acceptRa: string | undefined;
  readonly problems: readonly VpcHostProblem[];
}

/** rp_filter: the source has any route. Answers of node ports come in by another link than their route leads to. */
const RP_FILTER_LOOSE = 2;

/** `accept_ra`: take router advertisements although the host forwards; the default route comes by them. */
const ACCEPT_RA_FORWARDING = "2";

/** The priorities at which rules are ours, but for those in groups. */
const PRIORITIES: ReadonlySet<number> = new Set([
  VPC_NODE_PORT_PRIORITY,
  VPC_BLOCK_PRIORITY,
  VPC_ENI_PRIORITY,
]);

/** Whether the rules of groups have the priority. */
function isInGroup({ priority }: Rule): boolean {
  return priority > VPC_BLOCK_PRIORITY && priority <= VPC_BLOCK_END_PRIORITY;
}

/** Compares a node with its plan: the one description that repair and readiness share. Pure. */
export function diffVpcHost(
  plan: VpcHostPlan,
  found: FoundVpcHost,
  settings: Pick<VpcHostSettings, "enis" | "unseenDevices">,
): VpcHostChanges {
  const unseen = new Set(
    settings.unseenDevices.map((device) => VPC_ENI_TABLES + device),
  );
  // What leads to groups of rules has no table.
  const isStale = ({ table }: { readonly table: number }) =>
    unseen.size === 0 || (table !== 0 && !unseen.has(table));
  const rules = diffRules(plan.rules, found.rules, isStale);
  return {
    add: [
      ...plan.links.flatMap((link) => linkChanges(link, found)),
      ...plan.routes.filter((route) =>
        !found.routes.some((other) => agrees(other, route))
      ).map((route) => change(routeReplace(route), route.family)),
      ...rules.add,
    ],
    remove: [
      ...rules.remove,
      ...staleRoutes(plan, {
        ...found,
        routes: found.routes.filter(isStale),
      }),
    ],
    acceptRa: acceptRaLink(plan, found),
    problems: [...rules.problems, ...takenAddresses(plan, found, settings)],
  };
}

function acceptRaLink(
  { families, links }: VpcHostPlan,
  { acceptRa }: FoundVpcHost,
): string | undefined {
  const isRight = acceptRa === undefined || acceptRa === ACCEPT_RA_FORWARDING;
  if (isRight || !families.includes("ipv6")) return undefined;
  return links.find(({ isPrimary }) => isPrimary)?.name;
}

function change(request: Request, family: Family): Change {
  return { text: request.describe(), family, request };
}

function linkChanges(
  { index, name, mtu, addresses }: PlannedLink,
  found: FoundVpcHost,
): Change[] {
  const link = found.links.find((one) => one.index === index);
  if (link === undefined) return [];
  const has = found.addresses.filter((entry) => entry.index === index)
    .map(({ prefix }) => prefix.address);
  const isLoose = link.ipv4Conf?.rpFilter === RP_FILTER_LOOSE;
  const words = [
    ...link.mtu === mtu ? [] : [`mtu ${mtu}`],
    ...link.up ? [] : ["up"],
    ...isLoose ? [] : [`rp_filter ${RP_FILTER_LOOSE}`],
  ];
  const request = linkSet({ index }, {
    mtu,
    up: true,
    ipv4Conf: { rpFilter: RP_FILTER_LOOSE },
  });
  return [
    ...words.length === 0
      ? []
      : [{ text: `set link "${name}" ${words.join(", ")}`, request }],
    ...addresses.filter((address) =>
      !has.some((other) => other.equals(address))
    )
      .map((address) =>
        change(
          addressAdd({
            index,
            // A longer network would bring a route to it in the main table.
            prefix: { address, length: address.bits },
            noPrefixRoute: true,
            noDad: true,
          }),
          address.family,
        )
      ),
  ];
}

function agrees(found: Route, planned: RouteTarget): boolean {
  return found.family === planned.family && found.table === planned.table &&
    found.index === planned.index && found.type === "unicast" &&
    isSame(found.destination, planned.destination) &&
    isSame(found.gateway, planned.gateway);
}

function isSame<T extends { equals(other: T): boolean }>(
  a: T | undefined,
  b: T | undefined,
): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}

/** Routes that are ours and not planned, and the kernel's own way to the subnet by a secondary ENI: the node itself would use it. */
function staleRoutes(plan: VpcHostPlan, found: FoundVpcHost): Change[] {
  const secondary = new Set(
    plan.links.filter(({ isPrimary }) => !isPrimary).map(({ index }) => index),
  );
  return found.routes.filter((route) => {
    if (route.protocol === VPC_PROTOCOL) {
      return !plan.routes.some((planned) => agrees(route, planned));
    }
    return route.protocol === PROTOCOL_KERNEL && route.table === MAIN_TABLE &&
      route.index !== undefined && secondary.has(route.index) &&
      route.destination?.address.isLinkLocal === false;
  }).map((route) => {
    const { type: _type, hops: _hops, ...target } = route;
    return change(routeDelete(target), route.family);
  });
}

/** Our protocol keeps the kernel from taking another program's rule for ours, when adding and deleting. */
function diffRules(
  planned: readonly Rule[],
  found: readonly Rule[],
  isStale: (rule: Rule) => boolean,
): Pick<VpcHostChanges, "add" | "remove" | "problems"> {
  const ours = found.filter((rule) =>
    PRIORITIES.has(rule.priority) || isInGroup(rule)
  );
  // There can be hundreds of either.
  const plannedKeys = new Set(planned.map(ruleKey));
  const foundKeys = new Set(ours.map(ruleKey));
  const add = planned.filter((rule) => !foundKeys.has(ruleKey(rule)));
  const others = ours.filter((rule) => !plannedKeys.has(ruleKey(rule)));
  const hasGroups = planned.some(isInGroup);
  const foreign = others.filter((rule) =>
    !isOwn(rule) && (hasGroups || !isInGroup(rule))
  );
  // In the kernel's order: what leads to a group of rules goes before them.
  const stale = others.filter(isOwn).filter(isStale);
  return {
    add: add.map((rule) => change(ruleAdd(rule), rule.family)),
    remove: stale.map((rule) => change(ruleDelete(rule), rule.family)),
    problems: foreign.map((rule) =>
      new VpcHostProblem(
        `Cannot be sure how ${rule.family} packets are routed: ${
          describeRule(rule)
        } is not Coil's; delete it, unless it is there on purpose`,
      )
    ),
  };
}

function isOwn({ protocol, hasMore }: Rule): boolean {
  return protocol === VPC_PROTOCOL && hasMore === undefined;
}

/** All that decides what a rule does. */
function ruleKey(rule: Rule): string {
  const { family, priority, table, source, destination } = rule;
  const { fwmark, fwmask, iif, goto, hasMore } = rule;
  const selectors = [source, destination, fwmark, fwmask, iif, goto, hasMore];
  return [family, priority, table, ...selectors].join(" ");
}

/** Some distributions give the link of an ENI every address that EC2 has for it. */
function takenAddresses(
  { links }: VpcHostPlan,
  { addresses }: FoundVpcHost,
  { enis }: Pick<VpcHostSettings, "enis">,
): VpcHostProblem[] {
  return links.flatMap(({ index, name }) =>
    addresses.filter((entry) => entry.index === index)
      .map(({ prefix: { address } }) => address)
      .filter((address) =>
        enis.some(({ blocks, addresses }) =>
          addresses[address.family]?.equals(address) !== true &&
          blocks.some((block) => block.contains(address))
        )
      ).map((address) =>
        new VpcHostProblem(
          `Cannot give address "${address}" to a pod: link "${name}" of the host has it, so its packets stay on the host; remove it there, and stop the program that adds it`,
        )
      )
  );
}
