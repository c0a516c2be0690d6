import type { Family } from "../../../lib/inet/mod.ts";
import {
  MAIN_TABLE,
  type RouteTarget,
  type Rule,
} from "../../../lib/netlink/mod.ts";
import type {
  PlannedLink,
  VpcHostPlan,
} from "../../../lib/vpc/host/host_plan.ts";
import { formatTable } from "./nft_table.ts";

/**
 * A node's ENIs as text, in the order in which they are configured: the
 * commands `ip` and `sysctl` that would do the same, and the table as `nft list`
 * shows it. For people and for golden files.
 */
export function formatVpcHost(plan: VpcHostPlan): string {
  const names = new Map(plan.links.map(({ index, name }) => [index, name]));
  return [
    ...plan.links.flatMap(linkLines),
    ...plan.routes.map((route) => routeLine(route, names)),
    ...plan.rules.map(ruleLine),
    ...plan.table === undefined ? [] : [formatTable(plan.table).trimEnd()],
    ...plan.problems.map(({ message }) => `# ${message}`),
    "",
  ].join("\n");
}

function ip(family: Family): string {
  return family === "ipv6" ? "ip -6" : "ip";
}

function linkLines({ name, mtu, addresses }: PlannedLink): string[] {
  return [
    `ip link set dev ${name} mtu ${mtu} up`,
    `sysctl -w net.ipv4.conf.${name}.rp_filter=2`,
    ...addresses.map((address) =>
      `ip address add ${address}/${address.bits} dev ${name} noprefixroute`
    ),
  ];
}

function routeLine(
  { family, destination, gateway, index, table, protocol }: RouteTarget,
  names: ReadonlyMap<number, string>,
): string {
  const words = [`${ip(family)} route replace ${destination ?? "default"}`];
  if (gateway !== undefined) words.push(`via ${gateway}`);
  words.push(`dev ${names.get(index ?? 0)} table ${table} proto ${protocol}`);
  return words.join(" ");
}

function ruleLine(rule: Rule): string {
  const { family, priority, source, fwmark, fwmask } = rule;
  const { table, goto, protocol } = rule;
  const hex = (mark: number) => `0x${mark.toString(16)}`;
  const words = [`${ip(family)} rule add pref ${priority}`];
  if (source !== undefined) words.push(`from ${source}`);
  if (fwmark !== undefined) {
    words.push(`fwmark ${hex(fwmark)}/${hex(fwmask ?? 0xffffffff)}`);
  }
  if (goto !== undefined) words.push(`goto ${goto}`);
  else if (table === 0) words.push("nop");
  else words.push(`lookup ${table === MAIN_TABLE ? "main" : table}`);
  words.push(`proto ${protocol}`);
  return words.join(" ");
}
