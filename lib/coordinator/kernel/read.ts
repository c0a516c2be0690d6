import { settled } from "../../async/mod.ts";
import type { Address } from "../../inet/mod.ts";
import { inNetnsOrHere, tryReadSysctl } from "../../linux/mod.ts";
import {
  AT_MOST_IN_POD,
  type Link,
  linkGet,
  MAIN_TABLE,
  type Neighbour,
  neighbourGet,
  refuseLost,
  type Route,
} from "../../netlink/mod.ts";
import type { Kernel, Routes } from "./ports.ts";
import { REPLY_TABLE } from "../plan/reply_table.ts";
import {
  isOurs,
  type Place,
  type Sides,
  type SideState,
  sysctlKey,
} from "../state/state.ts";
import type { Step } from "../state/steps.ts";

/** A pod in which nothing runs yet, and the host, have few addresses and rules. */
// mutate: else another thread reads them, which only takes time.
const SHORT = { isShort: true };

/** A running pod may have any number; interfaces are added to such pods, too. */
const BOUNDED = { atMost: AT_MOST_IN_POD };
// mutate: else another thread reads them, which only takes time.
const SHORT_IN_POD = { isShort: true, atMost: AT_MOST_IN_POD };

/**
 * Reads a pod's network, but for its neighbours: the kernel keeps those of all
 * namespaces in one table. Of routes, the coordinator's and default ones.
 */
export async function readPod(pod: Routes): Promise<SideState> {
  const keep = (route: Route) =>
    isOurs(route) || route.destination === undefined;
  return {
    links: await pod.listLinks(BOUNDED),
    addresses: await pod.listAddresses({}, BOUNDED),
    rules: await pod.listRules({}, BOUNDED),
    routes: await pod.listRoutes({ outward: true, keep }, BOUNDED),
    neighbours: [],
  };
}

/** As {@linkcode readPod}, of a pod in which nothing runs yet, and only the links of these names and those that addresses and routes are of. */
async function readNewPod(
  pod: Routes,
  names: ReadonlySet<string>,
): Promise<SideState> {
  const addresses = await pod.listAddresses({}, SHORT_IN_POD);
  const rules = await pod.listRules({}, SHORT_IN_POD);
  const routes = await pod.listRoutes({ outward: true }, SHORT_IN_POD);
  const indexes = [
    ...addresses.map(({ index }) => index),
    ...routes.flatMap(({ hops, index }) =>
      hops?.map((hop) => hop.index) ?? index ?? []
    ),
  ];
  const { all: links } = await readLinks(pod, { names, indexes });
  return { links, addresses, rules, routes, neighbours: [] };
}

/** What probes of a pod's interface need: they come before all else is read. */
export async function readAddresses(
  pod: Routes,
  names: ReadonlySet<string>,
): Promise<SideState> {
  const addresses = await pod.listAddresses({}, SHORT_IN_POD);
  const indexes = addresses.map(({ index }) => index);
  const { all: links } = await readLinks(pod, { names, indexes });
  return { links, addresses, rules: [], routes: [], neighbours: [] };
}

/** The pod's routes of the main table, and default ones of the coordinator's. */
export async function readGateways(pod: Routes): Promise<Route[]> {
  const keep = (route: Route) =>
    route.table === MAIN_TABLE ||
    isOurs(route) && route.destination === undefined;
  return await pod.listRoutes({ outward: true, keep }, SHORT_IN_POD);
}

/** Those that are there, by one send: a list of links takes three. `byName` has each by the name that was asked for, which may be an alternative one. */
async function readLinks(
  socket: Routes,
  { names, indexes }: {
    readonly names: Iterable<string>;
    readonly indexes: readonly number[];
  },
): Promise<{
  readonly all: readonly Link[];
  readonly byName: ReadonlyMap<string, Link>;
}> {
  const byName = new Map<string, Link>();
  const byIndex = new Map<number, Link>();
  const requests = [
    ...[...names].map((name) =>
      linkGet({ name }, (link) => {
        byName.set(name, link);
        byIndex.set(link.index, link);
      })
    ),
    ...[...new Set(indexes)].map((index) =>
      linkGet({ index }, (link) => byIndex.set(index, link))
    ),
  ];
  refuseLost(await socket.tryExecute(requests));
  return { all: [...byIndex.values()], byName };
}

/**
 * Reads a pod's network, with the links of these names, and what of the host's
 * concerns all pods: nothing of it grows with them. `hostEnd` is the host's
 * link that has the name so called, if only as an alternative one.
 */
export async function readSides(
  { pod, host }: Pick<Kernel, "pod" | "host">,
  names: ReadonlySet<string>,
  options: { readonly hostEnd?: string | undefined } = {},
): Promise<Sides & { readonly hostEnd: Link | undefined }> {
  const [inside, { hostEnd, ...outside }] = await settled([
    readNewPod(pod, names),
    readHost(host, options),
  ]);
  return { pod: inside, host: outside, hostEnd };
}

async function readHost(
  host: Routes,
  { hostEnd: name }: { readonly hostEnd?: string | undefined },
): Promise<SideState & { readonly hostEnd: Link | undefined }> {
  const addresses = await host.listAddresses({}, SHORT);
  const indexes = addresses.filter(({ scope }) => scope === "global")
    .map(({ index }) => index);
  const names = name === undefined ? [] : [name];
  const { all: links, byName } = await readLinks(host, { names, indexes });
  return {
    addresses,
    links,
    rules: await host.listRules({}, SHORT),
    routes: [],
    neighbours: [],
    hostEnd: name === undefined ? undefined : byName.get(name),
  };
}

/** The routes by a link in one table. */
export async function readRoutesBy(
  host: Routes,
  filter: { readonly table: number; readonly index: number },
): Promise<Route[]> {
  return await host.listRoutes(filter, SHORT);
}

/** What the kernel knows about some neighbours of a link, each looked up on its own: that does not grow with the node's. */
export async function readNeighbours(
  socket: Routes,
  index: number,
  addresses: readonly Address[],
): Promise<Neighbour[]> {
  const found: Neighbour[] = [];
  const requests = addresses.map((address) =>
    neighbourGet({ index, address }, (neighbour) => found.push(neighbour))
  );
  refuseLost(await socket.tryExecute(requests));
  return found;
}

/** Whether the pod has the table of reply marks just so, if a step wants it. */
export async function areRepliesMarked(
  { filters }: Pick<Kernel, "filters">,
  steps: readonly Step[],
): Promise<boolean> {
  return steps.some(({ kind }) => kind === "replies") &&
    (await filters.compareTable(REPLY_TABLE)).length === 0;
}

/** The values of the sysctls that steps set. */
export function readSysctls(
  { netns, hostNetns }: Pick<Kernel, "netns" | "hostNetns">,
  steps: readonly Step[],
): Map<string, string> {
  const values = new Map<string, string>();
  const readOf = (place: Place) => () => {
    for (const step of steps) {
      if (step.kind !== "sysctl" || step.place !== place) continue;
      // None: the kernel has no IPv6, or is older.
      const value = tryReadSysctl(step.name);
      if (value !== undefined) values.set(sysctlKey(step), value);
    }
  };
  inNetnsOrHere(netns, readOf("pod"));
  inNetnsOrHere(hostNetns, readOf("host"));
  return values;
}
