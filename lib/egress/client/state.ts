import { FAMILIES } from "../../inet/mod.ts";
import { EGRESS_NARROW_TABLE, EGRESS_WIDE_TABLE } from "../../names/mod.ts";
import {
  type AddressEntry,
  AT_MOST_IN_POD,
  type FouPort,
  type Link,
  type Route,
  type RouteSocket,
  type Rule,
} from "../../netlink/mod.ts";
import { CLIENT_PROTOCOL } from "../plan/plan.ts";
import { isClientRule } from "../plan/rules.ts";
import { fouPort, sameFouPort } from "../kernel/fou_ports.ts";
import { originatingTable } from "../plan/originating.ts";
import { SERVER_LINK_NAMES } from "../gateway_plan/plan.ts";
import {
  TUNNEL_LINKS,
  tunnelFamily,
  UPSTREAM_MARKER,
} from "../kernel/tunnel_names.ts";

/** The part of a route socket that reading needs. */
export type StateReader = Pick<
  RouteSocket,
  "listLinks" | "listAddresses" | "listRoutes" | "listRules"
>;

/** What a network namespace has, ours or not. */
export interface NetnsState {
  readonly links: readonly Link[];
  readonly rules: readonly Rule[];
  /** Of all tables. */
  readonly routes: readonly Route[];
  /** Empty unless asked for. */
  readonly addresses: readonly AddressEntry[];
}

/** Reads the state of a network namespace; of what a pod has without end, the beginning. */
export async function readState(
  reader: StateReader,
  options: { readonly withAddresses: boolean },
): Promise<NetnsState> {
  const bounded = { atMost: AT_MOST_IN_POD };
  const links = await reader.listLinks(bounded);
  const rules = await reader.listRules({}, bounded);
  const routes = await reader.listRoutes({}, bounded);
  const addresses = options.withAddresses
    ? await reader.listAddresses({}, bounded)
    : [];
  return { links, rules, routes, addresses };
}

/** What of a state belongs to the pod's being a client. */
export interface OwnState {
  /** Tunnels, receivers and upstream Coil's marker; not the kernel's own fallbacks. */
  readonly links: readonly Link[];
  readonly rules: readonly Rule[];
  readonly routes: readonly Route[];
}

/**
 * Picks what is ours: links by name, the two route tables, the tables
 * that our rules look up, and copies of routes that carry our protocol.
 */
export function ownState(state: NetnsState): OwnState {
  const rules = state.rules.filter(isClientRule);
  const tables = new Set([EGRESS_NARROW_TABLE, EGRESS_WIDE_TABLE]);
  for (const { fwmark, table } of rules) {
    if (fwmark !== undefined) tables.add(table);
  }
  const isCopy = ({ index, table, protocol }: Route): boolean =>
    index !== undefined && protocol === CLIENT_PROTOCOL &&
    table === originatingTable(index);
  return {
    links: state.links.filter(isOwnLink),
    rules,
    routes: state.routes.filter((route) =>
      tables.has(route.table) || isCopy(route)
    ),
  };
}

/** Every link of our names is ours; but another program may have given a real link the marker's name. */
function isOwnLink({ name, kind }: Link): boolean {
  if (name === UPSTREAM_MARKER) return kind === "dummy";
  return tunnelFamily(name) !== undefined ||
    FAMILIES.some((family) => TUNNEL_LINKS[family].receiver === name);
}

/** Whether the namespace is an egress gateway's, whose table 118 and nft table are of another kind. */
export function isGateway({ links }: NetnsState): boolean {
  const names: readonly string[] = Object.values(SERVER_LINK_NAMES);
  return links.some(({ name }) => names.includes(name));
}

/** The FoU ports of the tunnels that are there. Ports carry no name; those that no tunnel leads to belong to other programs. */
export function portsOf(links: readonly Link[]): FouPort[] {
  const ports: FouPort[] = [];
  for (const { name, tunnel } of links) {
    const family = tunnelFamily(name);
    if (family === undefined || tunnel?.encap === undefined) continue;
    const port = fouPort(family, tunnel.encap.destinationPort);
    if (!ports.some((other) => sameFouPort(other, port))) ports.push(port);
  }
  return ports;
}
