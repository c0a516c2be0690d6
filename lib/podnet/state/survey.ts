import type { Address, DualStack } from "../../inet/mod.ts";
import {
  type Link,
  MAIN_TABLE,
  PROTOCOL_BOOT,
  type Route,
  wasAddedBy,
} from "../../netlink/mod.ts";
import { type LinkIdentity, parseLink } from "../base/alias.ts";
import type { Husk } from "../links/husk_reaper.ts";
import { type PodSources, sourcesOf } from "../base/sources.ts";

/** A pod's network as the kernel knows it. */
export interface PodLink extends LinkIdentity {
  /** Index of the host veth. */
  readonly index: number;
  /** Name of the host veth. */
  readonly hostName: string;
  /** Whether the host veth is set up. */
  readonly up: boolean;
  /** MAC address of the host veth. */
  readonly mac?: string;
  /** Index of the pod's end in the pod's network namespace. */
  readonly peerIndex?: number;
  /** The pod's network namespace, by the host's number for it. */
  readonly peerNetnsId?: number;
  /** The pod's addresses by the host's routes. Empty after an ADD that did not come to its end. */
  readonly addresses: DualStack<Address>;
  /** Which sources the host takes from the pod; absent when the link lacks the settings of either choice. */
  readonly sources?: PodSources;
}

/** A link that claims to be ours and is not readable as such. */
export interface MalformedLink {
  readonly index: number;
  readonly name: string;
  readonly alias: string;
}

/** All that the host's links and routes show about pods. */
export interface Survey {
  /** Whole pods and unfinished ones. */
  readonly pods: readonly PodLink[];
  /** Cut off, not yet deleted. */
  readonly husks: readonly Husk[];
  /** Left alone. */
  readonly malformed: readonly MalformedLink[];
  /** Routes in the pod table that lead to no pod of ours, or are of a foreign protocol. Left alone. */
  readonly misplacedRoutes: readonly Route[];
}

export interface SurveyOptions {
  readonly tableId: number;
  readonly protocolId: number;
  /** Take addresses from the main table too, where the pod table has none for a link. */
  readonly registerFromMain: boolean;
}

/** Reads links and routes. Pure. */
export function surveyOf(
  links: readonly Link[],
  routes: readonly Route[],
  options: SurveyOptions,
): Survey {
  const addresses = addressesOfPods(routes, options);
  const pods: PodLink[] = [];
  const husks: Husk[] = [];
  const malformed: MalformedLink[] = [];
  for (const link of links) {
    const parsed = parseLink(link);
    const { index, name, mac, peerIndex, peerNetnsId, up } = link;
    if (parsed.kind === "pod") {
      const sources = sourcesOf(link);
      pods.push({
        ...parsed.identity,
        index,
        hostName: name,
        up,
        ...(mac === undefined ? {} : { mac }),
        ...(peerIndex === undefined ? {} : { peerIndex }),
        ...(peerNetnsId === undefined ? {} : { peerNetnsId }),
        addresses: addresses.get(index) ?? {},
        ...(sources === undefined ? {} : { sources }),
      });
    } else if (parsed.kind === "husk") {
      husks.push({ ...parsed.identity, index });
    } else if (parsed.kind === "malformed") {
      malformed.push({ index, name, alias: link.alias ?? "" });
    }
  }
  const podIndexes = new Set(pods.map(({ index }) => index));
  const misplacedRoutes = routes.filter((route) =>
    route.table === options.tableId && isMisplaced(route, podIndexes, options)
  );
  return { pods, husks, malformed, misplacedRoutes };
}

/**
 * The host routes by link. The pod table comes first; a route of the main
 * table counts only for links without any in the pod table, as upstream's
 * `--register-from-main` does for pods that are older than that table.
 */
function addressesOfPods(
  routes: readonly Route[],
  options: SurveyOptions,
): Map<number, DualStack<Address>> {
  const fromTable = addressesByLink(
    routes,
    (route) => route.table === options.tableId,
  );
  if (!options.registerFromMain) return fromTable;
  // Calico rewrites routes with protocol boot.
  const protocols = [options.protocolId, PROTOCOL_BOOT];
  const fromMain = addressesByLink(
    routes,
    (route) => route.table === MAIN_TABLE && protocols.includes(route.protocol),
  );
  return new Map([...fromMain, ...fromTable]);
}

/** The addresses of accepted host routes, by the link they lead to. */
export function addressesByLink(
  routes: readonly Route[],
  accept: (route: Route) => boolean,
): Map<number, DualStack<Address>> {
  const byLink = new Map<number, DualStack<Address>>();
  for (const route of routes) {
    const { destination, index, family } = route;
    if (index === undefined || destination?.hostBits !== 0) continue;
    if (!accept(route)) continue;
    const known = byLink.get(index) ?? {};
    if (known[family] !== undefined) continue;
    byLink.set(index, { ...known, [family]: destination.address });
  }
  return byLink;
}

function isMisplaced(
  route: Route,
  podIndexes: ReadonlySet<number>,
  options: SurveyOptions,
): boolean {
  return !wasAddedBy(route, options.protocolId) ||
    route.index === undefined || !podIndexes.has(route.index);
}
