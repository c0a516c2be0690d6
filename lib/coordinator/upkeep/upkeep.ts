import { type Address, distinct } from "../../inet/mod.ts";
import { COORDINATOR_PROTOCOL } from "../../names/mod.ts";
import type { Link } from "../../netlink/mod.ts";
import { findHostAddresses } from "../kernel/host_addresses.ts";
import { discardHusks } from "../kernel/husks.ts";
import type { Peers } from "../kernel/peers.ts";
import type { Outside, Routes } from "../kernel/ports.ts";
import { readNeighbours, readPod } from "../kernel/read.ts";
import { throwRefusal } from "../kernel/remove.ts";
import { doRequest } from "../kernel/requests.ts";
import { isOurs, type State, stateOf } from "../state/state.ts";
import { isNetlinkStep, type Step } from "../state/steps.ts";
import {
  type JoinedHost,
  joinedLinks,
  lostAddresses,
  planHost,
} from "./plan_host.ts";
import { planRoutesToHost } from "./routes_to_host.ts";

/** What a look at the host has found. */
export interface HostLook {
  /** The host's ends of joined pods. */
  readonly joined: readonly Link[];
  readonly hostAddresses: readonly Address[];
  /** How many routes and rules were put back, or removed. */
  readonly changed: number;
  /** Whether something was left as it was, since a call has run. */
  readonly isPartial: boolean;
}

/** How many pods the coordinator has joined to this host. */
export async function countJoined(host: Routes): Promise<number> {
  const routes = await host.listRoutes({ protocol: COORDINATOR_PROTOCOL });
  return new Set(routes.map(({ index }) => index)).size;
}

/**
 * Puts back what the host lacks for joined pods, removes its rule after the
 * last one, and deletes husks. `isQuiet` says whether no call has run since:
 * what a call is at work on looks incomplete.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function keepHost(
  outside: Pick<Outside, "discard">,
  host: Routes,
  { isQuiet }: { readonly isQuiet: () => boolean },
): Promise<HostLook> {
  const found = await readJoined(host);
  await discardHusks(outside, found.links);
  const sources = await sourcesTowards(host, found);
  const steps = planHost(found, (address) => sources.get(`${address}`));
  const { hostAddresses } = found;
  const joined = joinedLinks(found);
  const isPartial = steps.length > 0 && !isQuiet();
  const side = { ...found, addresses: [] };
  const changed = await send(host, isPartial ? [] : steps, stateOf(side));
  return { joined, hostAddresses, changed, isPartial };
}

/**
 * Makes a running pod reach the addresses that its host has now. Returns how
 * many routes and neighbours changed.
 *
 * @throws {NetlinkError} when the kernel refuses
 */
export async function keepPod(
  peers: Peers,
  hostEnd: Link,
  hostAddresses: readonly Address[],
): Promise<number> {
  using socket = await peers.tryOpen(hostEnd);
  if (socket === undefined) return 0;
  const read = await readPod(socket);
  const inside = read.links.find(({ index }) => index === hostEnd.peerIndex);
  if (inside?.mac === undefined || hostEnd.mac === undefined) return 0;
  const asked = read.routes.filter(isOurs)
    .flatMap(({ destination, gateway }) =>
      gateway === undefined ? destination?.address ?? [] : []
    );
  const neighbours = await readNeighbours(
    socket,
    inside.index,
    distinct([...hostAddresses, ...asked]),
  );
  const pod = { ...read, neighbours };
  const steps = planRoutesToHost({
    pod,
    inner: { device: inside.name, mac: inside.mac },
    outer: { device: hostEnd.name, mac: hostEnd.mac },
    hostAddresses,
  });
  return await send(socket, steps, stateOf(pod));
}

/** Routes before neighbours: of an interface that goes in between no route is lacking then. */
async function readJoined(host: Routes): Promise<JoinedHost> {
  const protocol = COORDINATOR_PROTOCOL;
  const routes = await host.listRoutes({ protocol });
  const neighbours = await host.listNeighbours();
  const addresses = await host.listAddresses();
  const links = await host.listLinks();
  return {
    links,
    rules: await host.listRules(),
    routes,
    neighbours: neighbours.filter((other) =>
      other.protocol === protocol && other.state === "permanent"
    ),
    hostAddresses: await findHostAddresses(host, { addresses, links }),
  };
}

/** What the host sends from to pods that it has lost the routes to. */
async function sourcesTowards(
  host: Routes,
  found: JoinedHost,
): Promise<ReadonlyMap<string, Address>> {
  const addresses = lostAddresses(found).map(({ address }) => address);
  const routes = await host.lookUpRoutes(addresses);
  return new Map(addresses.flatMap((address, i) => {
    const source = routes[i]?.source;
    return source === undefined ? [] : [[`${address}`, source] as const];
  }));
}

/** What went in the meantime, with its pod, needs nothing. */
async function send(
  socket: Routes,
  steps: readonly Step[],
  state: State,
): Promise<number> {
  const errors = await socket.tryExecute(
    steps.filter(isNetlinkStep).map((step) => doRequest(step, state)),
  );
  throwRefusal(errors, { allowed: ["EEXIST"] });
  return errors.filter((error) => error === undefined).length;
}
