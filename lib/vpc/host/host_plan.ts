import { type Address, type Family, Prefix } from "../../inet/mod.ts";
import {
  VPC_BLOCK_PRIORITY,
  VPC_ENI_PRIORITY,
  VPC_ENI_TABLES,
  VPC_NODE_PORT_MARK,
  VPC_NODE_PORT_PRIORITY,
  VPC_PROTOCOL,
} from "../../names/mod.ts";
import {
  MAIN_TABLE,
  type NftTable,
  type RouteTarget,
  type Rule,
} from "../../netlink/mod.ts";
import { type BlockRule, groupBlockRules } from "./block_rules.ts";
import { findEniLink, type LinkFacts } from "./eni_links.ts";
import { VpcHostProblem } from "./host_problem.ts";
import type { HostEni, VpcHostSettings } from "./host_settings.ts";
import { snatTable, untranslated } from "./snat_table.ts";

/** A link of an ENI as it should be: up, with rp_filter 2. */
export interface PlannedLink {
  readonly index: number;
  readonly name: string;
  readonly mtu: number;
  /** What it should have; empty for the primary ENI, whose addresses are not ours. */
  readonly addresses: readonly Address[];
  /** Whether the primary ENI's, which keeps its routes in the main table. */
  readonly isPrimary: boolean;
}

/** Desired state of a node. */
export interface VpcHostPlan {
  readonly families: readonly Family[];
  readonly links: readonly PlannedLink[];
  /** In the order in which they can be added. */
  readonly routes: readonly RouteTarget[];
  readonly rules: readonly Rule[];
  /** Undefined while the primary ENI's link is unknown: what there is stays. */
  readonly table: NftTable | undefined;
  readonly problems: readonly VpcHostProblem[];
}

/** An ENI with its link. */
interface PlacedEni {
  readonly eni: HostEni;
  readonly link: LinkFacts;
}

/**
 * What a node should have whose pods have addresses of their VPC. Pure.
 *
 * EC2 drops packets whose source is not of the ENI that they leave by. So what
 * a block of a secondary ENI sends looks up that ENI's table, which has the
 * destinations that see addresses of pods, and no default route: everything
 * else falls through to the main table and leaves by the primary ENI, where it
 * gets the node's address. IPv6 is never translated: its tables have a default route.
 */
export function planVpcHost(
  settings: VpcHostSettings,
  kernel: {
    readonly links: readonly LinkFacts[];
    readonly families: readonly Family[];
  },
): VpcHostPlan {
  const families = settings.families.filter((family) =>
    kernel.families.includes(family)
  );
  const problems: VpcHostProblem[] = settings.families
    .filter((family) => !families.includes(family))
    .map(missingFamily);
  const placed: PlacedEni[] = [];
  for (const eni of settings.enis) {
    const link = findEniLink(eni, kernel.links);
    if (link instanceof VpcHostProblem) problems.push(link);
    else placed.push({ eni, link });
  }
  const primary = placed.find(({ eni }) => eni.device === 0);
  const secondary = placed.filter((one) => one !== primary);
  const uplinks = secondary.flatMap((one) =>
    families.flatMap((family) => uplinksOf(one, family))
  );
  problems.push(
    ...secondary.flatMap(({ eni }) => missingGateways(eni, families)),
  );
  return {
    families,
    links: placed.map((one) => linkOf(one, { settings, families })),
    routes: uplinks.flatMap((uplink) => routesOf(uplink, settings)),
    rules: [
      ...settings.nodePorts ? families.map(nodePortRule) : [],
      ...families.flatMap((family) =>
        rulesOf(uplinks.filter((uplink) => uplink.family === family))
      ),
    ],
    table: primary &&
      snatTable({ ...settings, families }, {
        eni: primary.eni,
        index: primary.link.index,
      }),
    problems,
  };
}

function missingFamily(family: Family): VpcHostProblem {
  return new VpcHostProblem(
    `Cannot configure ${family} of ENIs: the kernel has none; remove ${family} from --ip-family`,
  );
}

function linkOf(
  { eni, link }: PlacedEni,
  { settings, families }: {
    readonly settings: VpcHostSettings;
    readonly families: readonly Family[];
  },
): PlannedLink {
  const isPrimary = eni.device === 0;
  const own = isPrimary ? [] : families.flatMap((family) => {
    const address = eni.addresses[family];
    return address === undefined ? [] : [address];
  });
  const { index, name } = link;
  return { index, name, mtu: settings.mtu, addresses: own, isPrimary };
}

/** How one family leaves by a secondary ENI. */
interface Uplink {
  readonly family: Family;
  readonly eni: HostEni;
  readonly index: number;
  readonly gateway: Address;
  readonly table: number;
}

function missingGateways(
  { id, blocks, gateways }: HostEni,
  families: readonly Family[],
): VpcHostProblem[] {
  return families.filter((family) =>
    gateways[family] === undefined &&
    blocks.some((block) => block.family === family)
  ).map((family) =>
    new VpcHostProblem(
      `Cannot route the ${family} blocks of ENI "${id}": its subnet has no ${family} gateway`,
      { eni: id },
    )
  );
}

/** None where the subnet does not have the family. */
function uplinksOf({ eni, link }: PlacedEni, family: Family): Uplink[] {
  const gateway = eni.gateways[family];
  if (gateway === undefined) return [];
  const table = VPC_ENI_TABLES + eni.device;
  return [{ family, eni, index: link.index, gateway, table }];
}

function routesOf(uplink: Uplink, settings: VpcHostSettings): RouteTarget[] {
  const { family, index, gateway, table } = uplink;
  const common = { family, index, table, protocol: VPC_PROTOCOL };
  const cidrs = family === "ipv6" ? "all" : untranslated(settings);
  const destinations = cidrs === "all" ? [undefined] : cidrs;
  return [
    // A link-local gateway is on the link anyway.
    ...gateway.isLinkLocal
      ? []
      : [{ ...common, destination: Prefix.host(gateway) }],
    ...destinations.map((destination) => ({ ...common, destination, gateway })),
  ];
}

function nodePortRule(family: Family): Rule {
  return {
    family,
    priority: VPC_NODE_PORT_PRIORITY,
    table: MAIN_TABLE,
    fwmark: VPC_NODE_PORT_MARK,
    fwmask: VPC_NODE_PORT_MARK,
    protocol: VPC_PROTOCOL,
  };
}

/** The rules of a family's uplinks. */
function rulesOf(uplinks: readonly Uplink[]): Rule[] {
  const rules = (
    priority: number,
    sourcesOf: (uplink: Uplink) => readonly Prefix[],
  ): BlockRule[] =>
    uplinks.flatMap((uplink) => {
      const { family, table } = uplink;
      return sourcesOf(uplink).map((source) => (
        { family, table, protocol: VPC_PROTOCOL, priority, source }
      ));
    });
  const blocks = rules(
    VPC_BLOCK_PRIORITY,
    ({ eni, family }) => eni.blocks.filter((block) => block.family === family),
  );
  const own = rules(VPC_ENI_PRIORITY, ({ eni, family }) => {
    const address = eni.addresses[family];
    return address === undefined ? [] : [Prefix.host(address)];
  });
  return [...groupBlockRules(blocks), ...own];
}
