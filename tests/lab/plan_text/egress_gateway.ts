import {
  type Address,
  type Family,
  Prefix,
  valuesOf,
} from "../../../lib/inet/mod.ts";
import {
  type ClientLimits,
  limitClients,
} from "../../../lib/egress/gateway_plan/client_limits.ts";
import { passPathProbes } from "../../../lib/egress/gateway_plan/path_probes.ts";
import { guardProbes } from "../../../lib/egress/gateway_plan/probe_guard.ts";
import {
  REFUSAL_METRIC,
  type ServerPlan,
} from "../../../lib/egress/gateway_plan/plan.ts";
import type {
  ServerFamily,
  ServerLink,
} from "../../../lib/egress/gateway_plan/family.ts";
import { tableWithClients } from "../../../lib/egress/gateway/client_sets.ts";
import { formatTable } from "./nft_table.ts";

/**
 * A gateway as text, in the order in which it is made: the nft table as `nft
 * list` shows it, and the `ip` and `sysctl` commands that would do the same. For
 * people and for golden files. The limits of clients and probes depend on the kernel.
 */
export function formatServerPlan(
  unlimited: ServerPlan,
  clients: readonly Address[],
  limits?: ClientLimits,
): string {
  const plan = limits === undefined
    ? unlimited
    : passPathProbes(guardProbes(limitClients(unlimited, limits)));
  const families = valuesOf(plan.families);
  return [
    formatTable(tableWithClients(plan, clients)).trimEnd(),
    ...families.flatMap(({ link }) => linkLines(link)),
    ...families.flatMap(({ sysctls }) =>
      sysctls.map(({ name, value }) => `sysctl -w ${name}=${value}`)
    ),
    ...families.flatMap((family) => routeLines(plan, family, clients)),
    ...families.map(ruleLine),
    ...families.map(portLine),
    "",
  ].join("\n");
}

function linkLines({ name, mtu, tunnel }: ServerLink): string[] {
  const { kind, local, ttl, encap } = tunnel;
  const words = [`ip link add name ${name}`];
  if (mtu !== undefined) words.push(`mtu ${mtu}`);
  words.push(`type ${kind}`);
  if (kind === "ip6tnl") words.push("mode ip6ip6");
  words.push(`local ${local} remote any`);
  if (kind === "ip6tnl") words.push("encaplimit none");
  words.push(`${kind === "ip6tnl" ? "hoplimit" : "ttl"} ${ttl}`);
  if (encap !== undefined) {
    const { sourcePort, destinationPort, checksum } = encap;
    words.push(
      `encap fou encap-sport ${sourcePort} encap-dport ${destinationPort}`,
      checksum ? "encap-csum" : "noencap-csum",
    );
    if (checksum && kind === "ip6tnl") words.push("encap-udp6-csum");
  }
  const noLinkLocal = kind === "ip6tnl"
    ? [`ip link set dev ${name} addrgenmode none`]
    : [];
  return [words.join(" "), ...noLinkLocal, `ip link set dev ${name} up`];
}

function routeLines(
  plan: ServerPlan,
  { family, link }: ServerFamily,
  clients: readonly Address[],
): string[] {
  const common = `table ${plan.routeTable} proto ${plan.routeProtocol}`;
  const add = `${ipCommand(family)} route add`;
  return [
    `${add} unreachable default metric ${REFUSAL_METRIC} ${common}`,
    ...clients.filter((client) => client.family === family).map((client) =>
      `${add} ${Prefix.host(client)} dev ${link.name} ${common}`
    ),
  ];
}

function ruleLine({ family, rule }: ServerFamily): string {
  const { priority, iif, table } = rule;
  return `${
    ipCommand(family)
  } rule add pref ${priority} iif ${iif} lookup ${table}`;
}

function portLine({ family, fouPort }: ServerFamily): string {
  const { port, protocol } = fouPort;
  return `ip fou add port ${port} ipproto ${protocol}${
    family === "ipv6" ? " -6" : ""
  }`;
}

function ipCommand(family: Family): string {
  return family === "ipv6" ? "ip -6" : "ip";
}
