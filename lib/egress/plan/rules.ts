import {
  type Address,
  type DualStack,
  FAMILIES,
  type Family,
  Prefix,
} from "../../inet/mod.ts";
import {
  EGRESS_LINK_LOCAL_PRIORITY,
  EGRESS_NARROW_PRIORITY,
  EGRESS_NARROW_TABLE,
  EGRESS_ORIGINATING_PRIORITY,
  EGRESS_ORIGINATING_TABLES,
  EGRESS_PRIVATE_PRIORITY,
  EGRESS_WIDE_PRIORITY,
  EGRESS_WIDE_TABLE,
} from "../../names/mod.ts";
import { MAIN_TABLE, type Rule } from "../../netlink/mod.ts";

/** RFC 3927 and RFC 4291 section 2.5.6. */
const LINK_LOCAL: Readonly<Record<Family, Prefix>> = {
  ipv4: Prefix.parse("169.254.0.0/16"),
  ipv6: Prefix.parse("fe80::/10"),
};

/** The private networks of RFC 1918 and RFC 4193, in upstream Coil's order. */
const PRIVATE: readonly Prefix[] = [
  Prefix.parse("10.0.0.0/8"),
  Prefix.parse("172.16.0.0/12"),
  Prefix.parse("192.168.0.0/16"),
  Prefix.parse("fc00::/7"),
];

/** Priorities between the first rule of the cluster's networks and the one after the last. */
const MAX_CLUSTER_PREFIXES = EGRESS_WIDE_PRIORITY - EGRESS_PRIVATE_PRIORITY;

/** The cluster's networks of each family: the given ones, or else the private ones. */
export function clusterPrefixesOf(
  given: readonly Prefix[] | undefined,
): Readonly<Record<Family, readonly Prefix[]>> {
  const all = given ?? PRIVATE;
  return {
    ipv4: all.filter(({ family }) => family === "ipv4"),
    ipv6: all.filter(({ family }) => family === "ipv6"),
  };
}

/** Whether one of the cluster's networks has the address, or the whole of the destination. */
export function isInCluster(
  destination: Address | Prefix,
  clusterPrefixes: DualStack<readonly Prefix[]>,
): boolean {
  return FAMILIES.some((family) =>
    clusterPrefixes[family]?.some((prefix) => prefix.contains(destination))
  );
}

/**
 * The rules of one family. Packets stay in the main table for link-local
 * destinations, and for the cluster's own networks but for the parts of them
 * that an Egress names (the narrow table); the wide table has all the others.
 *
 * @throws {RangeError} when there are more of the cluster's networks than rules have room for
 */
export function planRules(
  family: Family,
  clusterPrefixes: readonly Prefix[],
): Rule[] {
  if (clusterPrefixes.length > MAX_CLUSTER_PREFIXES) {
    throw new RangeError(
      `Cannot plan ${family} rules: ${clusterPrefixes.length} cluster networks, at most ${MAX_CLUSTER_PREFIXES} are supported`,
    );
  }
  return [
    {
      family,
      priority: EGRESS_LINK_LOCAL_PRIORITY,
      destination: LINK_LOCAL[family],
      table: MAIN_TABLE,
    },
    narrowRule(family),
    ...clusterPrefixes.map((destination, i): Rule => ({
      family,
      priority: EGRESS_PRIVATE_PRIORITY + i,
      destination,
      table: MAIN_TABLE,
    })),
    { family, priority: EGRESS_WIDE_PRIORITY, table: EGRESS_WIDE_TABLE },
  ];
}

/** The rule that every client has once in each of its families. */
export function narrowRule(family: Family): Rule {
  const priority = EGRESS_NARROW_PRIORITY;
  return { family, priority, table: EGRESS_NARROW_TABLE };
}

/** The rule for answers to connections that came in by a link: as the main table says for it. */
export function originatingRule(family: Family, index: number): Rule {
  return {
    family,
    priority: EGRESS_ORIGINATING_PRIORITY,
    fwmark: index,
    table: EGRESS_ORIGINATING_TABLES + index,
  };
}

/**
 * Whether a rule is of those made here, by this version or by upstream Coil.
 * Rules carry no name, so it goes by what they say; a rule of the same priority
 * with anything else belongs to another program.
 */
export function isClientRule(rule: Rule): boolean {
  if (rule.iif !== undefined || rule.source !== undefined) return false;
  if (rule.priority === EGRESS_ORIGINATING_PRIORITY) {
    return rule.fwmark !== undefined && rule.destination === undefined &&
      rule.table === EGRESS_ORIGINATING_TABLES + rule.fwmark;
  }
  if (rule.fwmark !== undefined) return false;
  if (rule.table === EGRESS_NARROW_TABLE) {
    return rule.priority === EGRESS_NARROW_PRIORITY;
  }
  if (rule.table === EGRESS_WIDE_TABLE) {
    return rule.priority === EGRESS_WIDE_PRIORITY;
  }
  if (rule.table !== MAIN_TABLE) return false;
  if (rule.priority === EGRESS_LINK_LOCAL_PRIORITY) {
    return rule.destination?.equals(LINK_LOCAL[rule.family]) ?? false;
  }
  return rule.priority >= EGRESS_PRIVATE_PRIORITY &&
    rule.priority < EGRESS_WIDE_PRIORITY;
}

/** What a rule says, as text to compare by. */
export function ruleKey(rule: Rule): string {
  const { family, priority, table, destination, source, fwmark, fwmask, iif } =
    rule;
  const to = destination?.length === 0 ? undefined : destination;
  return [family, priority, to, source, fwmark, fwmask, iif, table].join(" ");
}
