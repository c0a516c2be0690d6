import type { Family } from "../../../lib/inet/mod.ts";
import { MAIN_TABLE, type Route, type Rule } from "../../../lib/netlink/mod.ts";
import {
  type WantedLink,
  wantedLinks,
} from "../../../lib/egress/client/links.ts";
import type { ClientPlan } from "../../../lib/egress/plan/plan.ts";
import { kernelRoutes } from "../../../lib/egress/plan/routes.ts";
import { clientTable, needsTable } from "../../../lib/egress/plan/table.ts";
import { fouPorts } from "../../../lib/egress/kernel/fou_ports.ts";
import {
  type ClientInterface,
  originatingRoutes,
  originatingRules,
} from "../../../lib/egress/plan/originating.ts";
import { formatTable } from "./nft_table.ts";

/**
 * A client as text, in the order in which it is made: the commands `sysctl`,
 * `ip` and `nft` (as `nft list` shows a table) that would do the same in a
 * namespace without any of it. For people and for golden files. `interfaces`
 * are those that originating-only mode finds there.
 */
export function formatClientPlan(
  plan: ClientPlan,
  interfaces: readonly ClientInterface[] = [],
): string {
  const { tunnelFamilies, receiverFamilies, port } = plan;
  const sysctls = receiverFamilies.includes("ipv4") ? ["all", "default"] : [];
  const table = needsTable(plan, interfaces)
    ? [formatTable(clientTable(plan, { interfaces })).trimEnd()]
    : [];
  // Links have no index yet: they get numbers that stand for their names.
  const links = wantedLinks(plan, plan.mtu);
  const numbers = links.map(({ name }, i) => [name, -i - 1] as const);
  const names = new Map([
    ...numbers.map(([name, i]) => [i, name] as const),
    ...interfaces.map(({ name, index }) => [index, name] as const),
  ]);
  const routes = [
    ...kernelRoutes(plan.routes, new Map(numbers)),
    ...originatingRoutes(interfaces),
  ];
  return [
    ...sysctls.map((link) => `sysctl -w net.ipv4.conf.${link}.rp_filter=0`),
    ...[...plan.rules, ...originatingRules(interfaces)].map(ruleLine),
    ...links.flatMap(linkLines),
    ...table,
    ...fouPorts(tunnelFamilies, port).map(({ family, protocol }) =>
      `${ip(family)} fou add port ${port} ipproto ${protocol}`
    ),
    ...routes.map((route) => routeLine(route, names)),
    ...reportLines(plan),
    "",
  ].join("\n");
}

function ip(family: Family): string {
  return family === "ipv6" ? "ip -6" : "ip";
}

function ruleLine(rule: Rule): string {
  const { family, priority, destination, fwmark, table } = rule;
  const words = [`${ip(family)} rule add priority ${priority}`];
  if (destination !== undefined) words.push(`to ${destination}`);
  if (fwmark !== undefined) words.push(`fwmark ${fwmark}`);
  words.push(`lookup ${table === MAIN_TABLE ? "main" : table}`);
  return words.join(" ");
}

function linkLines({ name, family, tunnel, mtu }: WantedLink): string[] {
  const { kind, local, remote, ttl, encap, collectMetadata } = tunnel;
  const words = [`ip link add name ${name}`];
  if (mtu !== undefined) words.push(`mtu ${mtu}`);
  words.push(`type ${kind}`);
  if (family === "ipv6") words.push("mode ip6ip6");
  if (collectMetadata === true) words.push("external");
  else {
    words.push(`local ${local} remote ${remote}`);
    if (family === "ipv6") words.push("encaplimit none");
    words.push(family === "ipv6" ? `hoplimit ${ttl}` : `ttl ${ttl}`);
  }
  if (encap !== undefined) {
    const { sourcePort, destinationPort } = encap;
    words.push(
      `encap fou encap-sport ${sourcePort} encap-dport ${destinationPort}`,
      encap.checksum ? "encap-csum" : "noencap-csum",
    );
  }
  return [
    words.join(" "),
    `ip link set dev ${name} addrgenmode none`,
    `ip link set dev ${name} up`,
  ];
}

function routeLine(route: Route, names: ReadonlyMap<number, string>): string {
  const { family, type, destination, gateway, metric, source, index } = route;
  const words = [`${ip(family)} route replace`];
  if (type !== "unicast") words.push(String(type));
  words.push(destination?.toString() ?? "default");
  if (gateway !== undefined) words.push(`via ${gateway}`);
  if (index !== undefined) words.push(`dev ${names.get(index) ?? index}`);
  words.push(`table ${route.table} proto ${route.protocol}`);
  if (family === "ipv4") words.push(`scope ${route.scope}`);
  if (source !== undefined) words.push(`src ${source}`);
  if (metric !== undefined) words.push(`metric ${metric}`);
  return words.join(" ");
}

function reportLines({ shadowed, skipped }: ClientPlan): string[] {
  return [
    ...shadowed.map(({ gateway, destination, by }) =>
      `# ${gateway}: ${destination} goes to ${by}`
    ),
    ...skipped.map(({ gateway, destination, lacking, refused }) =>
      `# ${gateway}: ${destination} is ${
        refused ? "refused" : "skipped"
      }, the ${lacking} has no address of its family`
    ),
  ];
}
