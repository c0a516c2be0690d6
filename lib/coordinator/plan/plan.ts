import { type Address, FAMILIES, type Family, Prefix } from "../../inet/mod.ts";
import {
  COORDINATOR_MARK,
  COORDINATOR_MARK_MASK,
  COORDINATOR_PRIORITY,
  COORDINATOR_PROTOCOL,
  COORDINATOR_TABLES,
} from "../../names/mod.ts";
import { IPV6_METRIC, MAIN_TABLE } from "../../netlink/mod.ts";
import type { Settings } from "../config/defaults.ts";
import { firstOf } from "./family.ts";
import { prefixedMac } from "../config/mac_prefix.ts";
import type { ResolvedMode } from "./mode.ts";
import type { Moves } from "./move_routes.ts";
import type { DeviceRoute, LinkSetting, Step } from "../state/steps.ts";
import type { Place } from "../state/state.ts";

/** One end of the link between pod and host. */
export interface LinkEnd {
  readonly device: string;
  readonly mac: string;
}

/** All that decides how one interface of a pod is set up. */
export interface PlanInput {
  readonly settings: Settings;
  readonly nic: string;
  readonly mode: ResolvedMode;
  /** The interface's own addresses and families. */
  readonly addresses: readonly Address[];
  readonly families: readonly Family[];
  /** Those of the pod's first interface. */
  readonly firstAddresses: readonly Address[];
  /** By which pods reach the host; the first of a family is their gateway. */
  readonly hostAddresses: readonly Address[];
  /** The pod's end: `veth0`, or the first interface of an overlay. */
  readonly inner: LinkEnd;
  /** The host's end. */
  readonly outer: LinkEnd;
  readonly moves: Moves;
}

/** Everything that should be there for one interface, in the order in which it is made. Pure. */
export function planNic(input: PlanInput): Step[] {
  const joined = joinedOf(input);
  return [
    ...nicSteps(input),
    ...sysctlSteps(input, joined),
    ...neighbourSteps(joined),
    ...hostSteps(joined),
    ...wayToHost(joined),
    ...hijackSteps(joined),
    ...input.mode === "underlay" ? replySteps(joined) : [],
    ...input.moves.steps,
    ...policySteps(input),
  ];
}

/** Of a family without an address of the host nothing passes between the two; nor would a host take it whose IPv6 is off. */
function joinedOf(input: PlanInput): PlanInput {
  const without = familiesWithoutHost(input);
  return {
    ...input,
    families: input.families.filter((family) => !without.includes(family)),
    addresses: input.addresses
      .filter(({ family }) => !without.includes(family)),
  };
}

function nicSteps({ nic, settings, addresses }: PlanInput): Step[] {
  const { txQueueLength, macPrefix } = settings;
  const [first] = addresses;
  const link = (setting: LinkSetting): Step => ({
    kind: "link",
    device: nic,
    setting,
  });
  return [
    link({ up: true }),
    ...txQueueLength > 0 ? [link({ txQueueLength })] : [],
    ...macPrefix !== undefined && first !== undefined
      ? [link({ mac: prefixedMac(macPrefix, first) })]
      : [],
  ];
}

function sysctlSteps(input: PlanInput, joined: PlanInput): Step[] {
  const { nic, inner, outer, mode, moves, families, settings } = input;
  const { podRpFilter, vethLinkAddress: address } = settings;
  const set = (place: Place, name: string, value: number): Step => ({
    kind: "sysctl",
    place,
    name: `net/${name}`,
    value: String(value),
  });
  const hasIpv6 = joined.families.includes("ipv6");
  // The kernel takes the larger one of `all` and the link's.
  const filtered = podRpFilter < 0
    ? []
    : [...new Set(["all", "default", nic, inner.device])];
  return [
    // A pod must not become the node's router.
    ...mode === "underlay" || hasIpv6
      ? [set("host", `ipv6/conf/${outer.device}/accept_ra`, 0)]
      : [],
    // `all` has no say in links that are made after it.
    ...hasIpv6
      ? [
        set("pod", "ipv6/conf/all/disable_ipv6", 0),
        set("pod", `ipv6/conf/${inner.device}/disable_ipv6`, 0),
        set("host", `ipv6/conf/${outer.device}/disable_ipv6`, 0),
      ]
      : [],
    ...filtered.map((link) =>
      set("pod", `ipv4/conf/${link}/rp_filter`, podRpFilter)
    ),
    ...moves.advertised === undefined
      ? []
      : [set("pod", `ipv6/conf/${moves.advertised}/accept_ra_defrtr`, 0)],
    ...mode !== "underlay" ? [] : [
      // Else a strict rp_filter drops what the mark sends back by veth0.
      set("pod", `ipv4/conf/${inner.device}/src_valid_mark`, 1),
      ...address !== undefined && families.includes("ipv4")
        ? [{ kind: "address", device: inner.device, address } as const]
        : [],
    ],
  ];
}

function neighbourSteps(input: PlanInput): Step[] {
  const { addresses, families, hostAddresses, inner, outer } = input;
  return [
    ...addresses.map((address): Step => ({
      kind: "neighbour",
      place: "host",
      neighbour: { device: outer.device, address, mac: inner.mac },
    })),
    ...hostAddresses.filter(({ family }) => families.includes(family))
      .map((address): Step => ({
        kind: "neighbour",
        place: "pod",
        neighbour: { device: inner.device, address, mac: outer.mac },
      })),
  ];
}

/**
 * The source is given: the host's end of an overlay may have a link-local
 * address, which the kernel would take, and which pods answer by other links.
 */
function hostSteps(input: PlanInput): Step[] {
  const { addresses, families, hostAddresses, outer, settings } = input;
  const table = settings.hostRuleTable;
  return [
    ...addresses.map((address): Step => ({
      kind: "route",
      place: "host",
      route: {
        ...direct(Prefix.host(address), { device: outer.device, table }),
        source: address.family === "ipv4"
          ? firstOf("ipv4", hostAddresses)
          : undefined,
      },
    })),
    ...families.map((family) => hostRule(family, table)),
  ];
}

/** The host's rule that leads to the table of pods' addresses. */
export function hostRule(family: Family, table: number): Step {
  const priority = COORDINATOR_PRIORITY;
  const protocol = COORDINATOR_PROTOCOL;
  return {
    kind: "rule",
    place: "host",
    rule: { family, priority, table, protocol },
  };
}

/** Host routes to the host, in each table that sends anything to it. */
function wayToHost(input: PlanInput): Step[] {
  const { families, hostAddresses, inner, mode, moves } = input;
  const tables = [
    MAIN_TABLE,
    ...mode === "underlay" ? [COORDINATOR_TABLES] : [],
    ...moves.tables,
  ];
  return hostAddresses.filter(({ family }) => families.includes(family))
    .flatMap((address) =>
      tables.map((table): Step => ({
        kind: "route",
        place: "pod",
        route: {
          ...direct(Prefix.host(address), { device: inner.device, table }),
          source: sourceOf(input, address.family),
        },
      }))
    );
}

function hijackSteps(input: PlanInput): Step[] {
  const { families, hostAddresses, moves, settings: { hijacked } } = input;
  const tables = [
    MAIN_TABLE,
    ...moves.tables,
  ];
  // The host's own addresses have routes already.
  const own = new Set(hostAddresses.map((each) => `${Prefix.host(each)}`));
  return hijacked.filter((each) =>
    families.includes(each.family) && !own.has(`${each}`)
  )
    .flatMap((destination) =>
      tables.flatMap((table) =>
        throughHost(input, { family: destination.family, destination, table })
      )
    );
}

/** What came from the host is answered by the way it came. */
function replySteps(input: PlanInput): Step[] {
  const { families } = input;
  return [
    ...families.flatMap((family) =>
      throughHost(input, {
        family,
        destination: undefined,
        table: COORDINATOR_TABLES,
      })
    ),
    ...families.map((family): Step => ({
      kind: "rule",
      place: "pod",
      rule: {
        family,
        priority: COORDINATOR_PRIORITY,
        fwmark: COORDINATOR_MARK,
        fwmask: COORDINATOR_MARK_MASK,
        table: COORDINATOR_TABLES,
        protocol: COORDINATOR_PROTOCOL,
      },
    })),
    { kind: "replies" },
  ];
}

function policySteps({ nic, families, moves, settings }: PlanInput): Step[] {
  const table = moves.isOwn && moves.table !== undefined
    ? moves.table.table
    : MAIN_TABLE;
  return settings.policyRoutes
    .filter(({ destination }) => families.includes(destination.family))
    .map(({ destination, gateway }): Step => ({
      kind: "route",
      place: "pod",
      route: {
        ...common(destination.family),
        destination: destination.length === 0 ? undefined : destination,
        gateway,
        device: nic,
        table,
        scope: "global",
      },
    }));
}

/** Nothing where the host has no address of the family: it cannot be a gateway. */
function throughHost(
  input: PlanInput,
  { family, destination, table }: {
    readonly family: Family;
    readonly destination: Prefix | undefined;
    readonly table: number;
  },
): Step[] {
  const gateway = firstOf(family, input.hostAddresses);
  if (gateway === undefined) return [];
  return [{
    kind: "route",
    place: "pod",
    route: {
      ...common(family),
      destination: destination?.length === 0 ? undefined : destination,
      gateway,
      device: input.inner.device,
      table,
      scope: "global",
      source: sourceOf(input, family),
    },
  }];
}

/** A route to what a link leads to, made by the coordinator. */
export function direct(
  destination: Prefix,
  where: { readonly device: string; readonly table: number },
): DeviceRoute {
  const { family } = destination;
  const scope = family === "ipv4" ? "link" : "global";
  return { ...common(family), destination, ...where, scope };
}

function common(
  family: Family,
): Pick<DeviceRoute, "family" | "protocol" | "type" | "metric"> {
  return {
    family,
    protocol: COORDINATOR_PROTOCOL,
    type: "unicast",
    metric: family === "ipv6" ? IPV6_METRIC : undefined,
  };
}

/** IPv6 has none: with one the kernel would not take the route while the address is tentative. */
function sourceOf(
  { firstAddresses }: PlanInput,
  family: Family,
): Address | undefined {
  return family === "ipv4" ? firstOf("ipv4", firstAddresses) : undefined;
}

/** The families in which hijacked destinations have no way through the host. */
export function familiesWithoutHost(
  { families, hostAddresses }: Pick<PlanInput, "families" | "hostAddresses">,
): readonly Family[] {
  return FAMILIES.filter((family) =>
    families.includes(family) && firstOf(family, hostAddresses) === undefined
  );
}
