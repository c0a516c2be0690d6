import type { Netns } from "../../linux/mod.ts";
import type {
  FouPort,
  FouSocket,
  NftTable,
  Route,
  RouteSocket,
  Rule,
} from "../../netlink/mod.ts";
import {
  diffLinks,
  kernelFacts,
  type LinkChanges,
  wantedLinks,
} from "./links.ts";
import type { ClientPlan } from "../plan/plan.ts";
import { type Changes, diffRules, kernelRoutes } from "../plan/routes.ts";
import {
  isGateway,
  type NetnsState,
  type OwnState,
  ownState,
  portsOf,
  readState,
} from "./state.ts";
import {
  type ClientInterface,
  findInterfaces,
  originatingRoutes,
  originatingRules,
} from "../plan/originating.ts";
import { clientTable, needsTable } from "../plan/table.ts";
import { OWN_PORTS_FROM, ownPortsFrom } from "../plan/own_ports.ts";

/** What a namespace has, and what a plan needs changed. Routes come later: they need the links. */
export interface Findings {
  readonly state: NetnsState;
  readonly own: OwnState;
  /** FoU ports that are there, ours or not; not asked for where no tunnel uses one. */
  readonly ports: readonly FouPort[];
  /** Those that originating-only mode is about. */
  readonly interfaces: readonly ClientInterface[];
  /** See `ownPortsFrom()`; read in originating-only mode. */
  readonly ownPortsFrom: number;
  readonly rules: Changes<Rule>;
  readonly links: LinkChanges;
}

/** A network namespace is an egress gateway's, and nothing was done about it. */
export class GatewayNetnsError extends TypeError {
  /** The name of the class. */
  override readonly name: string = "GatewayNetnsError";

  /** The namespace at this path. */
  constructor(path: string) {
    super(
      `Cannot make a client of network namespace "${path}": it is an egress gateway's`,
    );
  }
}

/** Where to look. */
export interface FindOptions {
  readonly route: RouteSocket;
  readonly fou: FouSocket;
  readonly netns: Netns;
}

/**
 * Reads the namespace and compares it with the plan. Changes nothing.
 *
 * @throws {GatewayNetnsError} when the namespace is a gateway's
 * @throws {TypeError} when it lacks the plan's interface
 */
export async function findOut(
  plan: ClientPlan,
  options: FindOptions,
): Promise<Findings> {
  const { route, fou, netns } = options;
  const { path } = netns;
  const state = await readState(route, {
    withAddresses: plan.originatingOnly || plan.tunnels.length > 0,
  });
  if (isGateway(state)) {
    throw new GatewayNetnsError(path);
  }
  const own = ownState(state);
  const interfaces = findInterfaces(plan, state);
  const rules = [...plan.rules, ...originatingRules(interfaces)];
  const links = wantedLinks(plan, linkMtu(plan, { ...state, path }));
  const hadTunnels = portsOf(own.links).length > 0;
  return {
    state,
    own,
    ports: hadTunnels ? await fou.list() : [],
    interfaces,
    // mutate: the mode makes tunnels, which take a kernel with Foo over UDP; tests/vm/egress_client_originating_test.ts has another range.
    ownPortsFrom: plan.originatingOnly ? ownPortsFrom(netns) : OWN_PORTS_FROM,
    rules: diffRules(rules, own.rules),
    links: diffLinks(links, own.links, kernelFacts()),
  };
}

/** Of the interface below the tunnels; asked of the kernel only where tunnels need it. */
function linkMtu(
  { ifname, mtu, tunnels }: ClientPlan,
  { links, path }: Pick<NetnsState, "links"> & { readonly path: string },
): number {
  if (mtu > 0 || tunnels.length === 0) return mtu;
  const link = links.find(({ name }) => name === ifname);
  if (link !== undefined) return link.mtu;
  throw new TypeError(
    `Cannot find interface "${ifname}" in network namespace "${path}"`,
  );
}

/** The table that the namespace is to have, if any. */
export function wantedTable(
  plan: ClientPlan,
  { interfaces, ownPortsFrom }: Findings,
): NftTable | undefined {
  return needsTable(plan, interfaces)
    ? clientTable(plan, { interfaces, ownPortsFrom })
    : undefined;
}

/** The routes that the namespace is to have, in the order to make them. `indexes` has the links by name. */
export function wantedRoutes(
  plan: ClientPlan,
  { interfaces, state }: Findings,
  indexes: ReadonlyMap<string, number>,
): Route[] {
  // The kernel refuses a source that it may not use, or not yet.
  const usable = new Set(
    state.addresses.filter(({ tentative }) => !tentative)
      .map(({ prefix }) => prefix.address.toString()),
  );
  // Before others lead into tunnels, answers have their own.
  return [
    ...originatingRoutes(interfaces),
    ...kernelRoutes(plan.routes, indexes).map((route) =>
      usable.has(String(route.source)) ? route : { ...route, source: undefined }
    ),
  ];
}

/** Whether a route cannot have its source yet: the kernel still looks for another owner of the address, which ends by itself. */
export function awaitsAddress(
  { routes }: ClientPlan,
  { state }: Pick<Findings, "state">,
): boolean {
  const tentative = new Set(
    state.addresses.filter((each) => each.tentative && !each.dadFailed)
      .map(({ prefix }) => prefix.address.toString()),
  );
  return routes.some((route) =>
    route.kind === "tunnel" && tentative.has(route.source.toString())
  );
}
