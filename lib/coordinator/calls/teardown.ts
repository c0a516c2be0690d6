import { settled } from "../../async/mod.ts";
import type { AttachmentKey } from "../../cni/mod.ts";
import { type Address, FAMILIES } from "../../inet/mod.ts";
import {
  COORDINATOR_PRIORITY,
  COORDINATOR_PROTOCOL,
  COORDINATOR_TABLES,
  COORDINATOR_VETH,
} from "../../names/mod.ts";
import {
  type Link,
  MAIN_TABLE,
  neighbourDelete,
  NetlinkError,
  refuseLost,
  type Request,
  type Route,
  routeAddBeside,
  type Rule,
  ruleDelete,
} from "../../netlink/mod.ts";
import { firstNicTable, isNicRule } from "../plan/nics.ts";
import { cutOff, huskOf } from "../kernel/husks.ts";
import type { Filters, Kernel, Outside, Routes } from "../kernel/ports.ts";
import { readPod } from "../kernel/read.ts";
import { remove, routeRemoval, throwRefusal } from "../kernel/remove.ts";
import { REPLY_TABLE } from "../plan/reply_table.ts";
import {
  addressesOf,
  indexOf,
  isOurs,
  type SideState,
  sourcesOf,
  sourceTexts,
} from "../state/state.ts";
import { type CoordinatorHusk, hostEndName, pairOf } from "../plan/veth.ts";

/** One interface that is deleted. */
export interface Detachment extends AttachmentKey {
  readonly firstNic: string;
  /** What the result of ADD says: the interface may be gone. */
  readonly addresses: readonly Address[];
}

/**
 * Takes away what ADD made for one interface. `kernel` lacks the pod where its
 * namespace is gone: all that was in there is gone, too, and so is a veth that
 * led there. Harmless when done twice.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function detach(
  outside: Pick<Outside, "discard" | "findHostEnd" | "warn">,
  kernel: Pick<Kernel, "host"> & Partial<Kernel>,
  detachment: Detachment,
): Promise<void> {
  const { host, pod, filters } = kernel;
  const state = pod && await readPod(pod);
  const addresses = [
    ...detachment.addresses,
    ...state === undefined
      ? []
      : [...ownAddresses(state, detachment), ...lostAddresses(state)],
  ];
  const { pair, former } = await ownPair(host, detachment.containerId);
  const takesPair = pair !== undefined &&
    (pairOf(pair)?.ifname === detachment.ifname ||
      state !== undefined && isLast(state, detachment));
  const end = pair ?? await endOfFirst(outside, kernel, detachment);
  // At the same time: each waits for the kernel.
  const [husk] = await settled([
    takesPair ? cutOff(host, pair) : undefined,
    takesPair ? undefined : end && forgetOnHost(host, end, addresses),
    pod && state && forgetInPod(outside, pod, {
      restored: restoredDefaults(state, detachment),
      removals: podRemovals(state, { ...detachment, addresses, takesPair }),
    }),
    takesPair ? filters && forgetReplies(outside, filters) : undefined,
  ]);
  const left = husk ?? former;
  if (left !== undefined) await outside.discard(left);
}

/** The host's end of a container's pair, or what a DEL that was killed has left of it. */
async function ownPair(host: Routes, containerId: string): Promise<{
  readonly pair?: Link | undefined;
  readonly former?: CoordinatorHusk | undefined;
}> {
  const link = await host.getLink({ name: await hostEndName(containerId) });
  const husk = link && huskOf(link);
  if (husk?.containerId === containerId) return { former: husk };
  const owner = link && pairOf(link);
  return { pair: owner?.containerId === containerId ? link : undefined };
}

/** In overlay mode, and of a pod that upstream's coordinator connected. */
async function endOfFirst(
  outside: Pick<Outside, "findHostEnd">,
  { pod, netns }: Partial<Kernel>,
  { firstNic }: Detachment,
): Promise<Link | undefined> {
  if (pod === undefined || netns === undefined) return undefined;
  for (const name of [COORDINATOR_VETH, firstNic]) {
    const link = await pod.getLink({ name });
    const end = link && await outside.findHostEnd({ netns, link });
    if (end !== undefined) return end;
  }
  return undefined;
}

/** Exactly the routes and neighbours of these addresses by this link. */
async function forgetOnHost(
  host: Routes,
  end: Link,
  addresses: readonly Address[],
): Promise<void> {
  const own = sourceTexts(addresses);
  const routes = await host.listRoutes({
    protocol: COORDINATOR_PROTOCOL,
    keep: ({ index, destination }) =>
      index === end.index && own.has(String(destination)),
  });
  await remove(host, [
    ...routes.map(routeRemoval),
    // Also without a route: what looks after the host would put it back.
    ...addresses.map((address) =>
      neighbourDelete({ index: end.index, address })
    ),
  ]);
}

function ownAddresses(
  state: SideState,
  { ifname }: Detachment,
): readonly Address[] {
  return addressesOf(state, indexOf(state, ifname) ?? -1);
}

/**
 * In the pod. The kernel takes no default route whose gateway or source the pod
 * has lost since: the pod has to go all the same.
 */
async function forgetInPod(
  { warn }: Pick<Outside, "warn">,
  pod: Routes,
  { restored, removals }: {
    readonly restored: readonly Request[];
    readonly removals: readonly Request[];
  },
): Promise<void> {
  const errors = await pod.tryExecute([...restored, ...removals]);
  refuseLost(errors);
  for (const err of errors.slice(0, restored.length)) {
    if (err === undefined) continue;
    warn("Another interface of the pod did not get its default route back", {
      err,
    });
  }
  throwRefusal(errors.slice(restored.length));
}

/** A process of the pod may have a table of this name that is its own alone. */
async function forgetReplies(
  { warn }: Pick<Outside, "warn">,
  filters: Filters,
): Promise<void> {
  try {
    await filters.deleteTable(REPLY_TABLE.name);
  } catch (err) {
    if (!(err instanceof NetlinkError && err.code === "EPERM")) throw err;
    warn("A process of the pod keeps the table of reply marks", { err });
  }
}

/** Those of interfaces that are gone: rules are for them, and no link has them. */
function lostAddresses(state: SideState): readonly Address[] {
  const present = sourcesOf(state);
  return state.rules.filter(isNicRule).flatMap(({ source }) =>
    source === undefined || present.has(String(source)) ? [] : [source.address]
  );
}

/** Whether the pod has no other interface that the link to the host serves. */
function isLast({ links }: SideState, { ifname }: Detachment): boolean {
  return links.every(({ name, up }) =>
    [ifname, COORDINATOR_VETH, "lo", "tunl0"].includes(name) || !up
  );
}

interface PodRemoval extends Detachment {
  readonly takesPair: boolean;
}

function podRemovals(state: SideState, removed: PodRemoval): Request[] {
  const tables = tablesToEmpty(state, removed);
  const rules = state.rules.filter((rule) =>
    isOurs(rule) && tables.has(rule.table) &&
    (isNicRule(rule) || rule.priority === COORDINATOR_PRIORITY)
  );
  const routes = state.routes.filter((route) =>
    isOurs(route) && route.type === "unicast" && tables.has(route.table)
  );
  const leftInMain = routesLeftInMain(state, { tables, ...removed });
  return [
    ...rules.map((rule: Rule) => ruleDelete(rule)),
    ...[...routes, ...leftInMain].map(routeRemoval),
    ...leftInMain.flatMap(({ index, gateway, destination }) =>
      index === undefined || gateway !== undefined || destination === undefined
        ? []
        : [neighbourDelete({ index, address: destination.address })]
    ),
  ];
}

/** The tables of these addresses, the interface's own, and the one of all where the link to the host goes. */
function tablesToEmpty(
  state: SideState,
  { ifname, addresses, takesPair }: PodRemoval,
): Set<number> {
  const index = indexOf(state, ifname);
  const own = sourceTexts(addresses);
  const tables = new Set<number>();
  for (const rule of state.rules) {
    const isOwn = isNicRule(rule) && rule.table !== COORDINATOR_TABLES &&
      own.has(String(rule.source));
    if (isOwn) tables.add(rule.table);
  }
  for (const { table, index: by, protocol } of state.routes) {
    const isOwn = protocol === COORDINATOR_PROTOCOL && index !== undefined &&
      by === index && table > COORDINATOR_TABLES && table !== MAIN_TABLE;
    if (isOwn) tables.add(table);
  }
  const firstTables = [COORDINATOR_TABLES, firstNicTable("underlay").table];
  const others = state.rules.some((rule) =>
    isNicRule(rule) && !firstTables.includes(rule.table) &&
    !tables.has(rule.table)
  );
  if (!others) tables.add(firstNicTable("underlay").table);
  const hasVeth = indexOf(state, COORDINATOR_VETH) !== undefined;
  if (takesPair || !hasVeth && !others) tables.add(COORDINATOR_TABLES);
  return tables;
}

/** By the pair that goes, and by the interface itself; in overlay mode by the first interface, once no other needs them. */
function routesLeftInMain(
  state: SideState,
  { ifname, firstNic, tables, takesPair }: PodRemoval & {
    readonly tables: ReadonlySet<number>;
  },
): Route[] {
  const veth = indexOf(state, COORDINATOR_VETH);
  const isLastOfOverlay = veth === undefined && tables.has(COORDINATOR_TABLES);
  const isOwn = takesPair || ifname !== firstNic;
  const gone = [
    ...takesPair ? [veth] : [],
    ...isOwn ? [indexOf(state, ifname)] : [],
  ];
  return state.routes.filter((route) =>
    isOurs(route) && route.table === MAIN_TABLE &&
    (isLastOfOverlay ||
      route.index !== undefined && gone.includes(route.index))
  );
}

/** Another interface gets the default route back that it gave to this one. */
function restoredDefaults(
  state: SideState,
  { ifname }: Detachment,
): Request[] {
  const index = indexOf(state, ifname);
  const veth = indexOf(state, COORDINATOR_VETH);
  const defaults = state.routes.filter((route) =>
    route.destination === undefined && route.type === "unicast"
  );
  return FAMILIES.flatMap((family) => {
    const ofFamily = defaults.filter((route) => route.family === family);
    const hasOther = ofFamily.some((route) =>
      route.table === MAIN_TABLE &&
      (route.hops ?? [route]).some((way) => way.index !== index)
    );
    const [moved] = ofFamily.filter((route) =>
      isOurs(route) && route.index !== index && route.index !== veth
    );
    if (hasOther || moved === undefined) return [];
    const { type: _type, hops: _hops, ...route } = moved;
    return [
      routeAddBeside(
        { ...route, table: MAIN_TABLE, protocol: undefined },
        { place: "last" },
      ),
    ];
  });
}
