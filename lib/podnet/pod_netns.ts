import { type Address, type DualStack, valuesOf } from "../inet/mod.ts";
import { LinuxError, Netns, NotANetnsError } from "../linux/mod.ts";
import { type Link, RouteSocket } from "../netlink/mod.ts";
import { NetnsNotFoundError } from "./errors.ts";
import type { NetnsIndex } from "./netns_index.ts";

/** ENOENT and ENOTDIR: no such file. ENXIO and ENODEV: what is there has nothing behind it. */
const MISSING = new Set(["ENOENT", "ENOTDIR", "ENXIO", "ENODEV"]);

/** Where container runtimes keep the namespaces of pods. */
const NETNS_DIRECTORY = "/run/netns";

/**
 * Opens a pod's network namespace by the path that the runtime gave.
 *
 * @throws {NetnsNotFoundError} when there is none at that path
 * @throws {LinuxError} when it cannot be opened for another reason
 */
export function openPodNetns(path: string): Netns {
  try {
    return Netns.open(path);
  } catch (cause) {
    const missing = cause instanceof NotANetnsError ||
      cause instanceof LinuxError && MISSING.has(cause.code);
    throw missing ? new NetnsNotFoundError(path, { cause }) : cause;
  }
}

/**
 * Refuses the host's own network namespace: a veth would have its peer's name
 * and routes there. `host` is absent when that is the process's own.
 *
 * @throws {TypeError} when it is that one
 */
export function refuseHost(netns: Netns, host: Netns | undefined): void {
  const isHost = host === undefined ? netns.isOwn : netns.sameAs(host);
  if (!isHost) return;
  throw new TypeError(
    `Cannot connect network namespace "${netns.path}": it is the host's own`,
  );
}

/** What is known of a pod from outside its network namespace. */
export interface PodOutside {
  /** The host's end. */
  readonly link: Link;
  /** Name of the pod's end. */
  readonly ifname: string;
  /** The addresses that the pod's end has. */
  readonly addresses: DualStack<Address>;
}

/**
 * Finds the network namespace that a pod's end is in, starting with the
 * likely path. Each candidate has to prove itself: the path may have gone to
 * another namespace meanwhile, and so may the number.
 */
export async function findPodNetns(
  pod: PodOutside,
  options: {
    readonly likelyPath?: string | undefined;
    readonly index: NetnsIndex;
  },
): Promise<Netns | undefined> {
  const { likelyPath, index } = options;
  if (likelyPath !== undefined) {
    const netns = await openIfOf(pod, likelyPath);
    if (netns !== undefined) return netns;
  }
  const { peerNetnsId: id } = pod.link;
  if (id === undefined) return undefined;
  const known = await index.pathOf(id);
  const netns = known && await openIfOf(pod, known);
  if (netns) return netns;
  const path = (await index.refresh()).get(id);
  return path === undefined ? undefined : await openIfOf(pod, path);
}

/** The paths of the network namespaces that have one. */
export function namespacePaths(): string[] {
  try {
    return Array.from(
      Deno.readDirSync(NETNS_DIRECTORY),
      ({ name }) => `${NETNS_DIRECTORY}/${name}`,
    );
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Opens the namespace if the pod's end is in there: right name, right index, paired with the host's end, with the pod's addresses. */
async function openIfOf(
  pod: PodOutside,
  path: string,
): Promise<Netns | undefined> {
  const { index, peerIndex } = pod.link;
  return await openIfHas(path, {
    ...pod,
    isEnd: (end) => end.index === peerIndex && end.peerIndex === index,
  });
}

/** What an interface in a network namespace must be like. */
export interface Wanted {
  readonly ifname: string;
  readonly addresses: DualStack<Address>;
  /** Whether the interface of that name is the one. */
  isEnd?(link: Link): boolean;
}

/** Opens the namespace if it has such an interface; undefined when it has not, or is none. */
export async function openIfHas(
  path: string,
  wanted: Wanted,
): Promise<Netns | undefined> {
  let netns: Netns | undefined;
  try {
    netns = openPodNetns(path);
    if (await hasInterface(netns, wanted)) {
      const found = netns;
      netns = undefined;
      return found;
    }
  } catch (error) {
    if (!(error instanceof NetnsNotFoundError)) throw error;
  } finally {
    netns?.[Symbol.dispose]();
  }
  return undefined;
}

async function hasInterface(
  netns: Netns,
  { ifname, addresses, isEnd }: Wanted,
): Promise<boolean> {
  using socket = RouteSocket.open({ netns });
  const link = await socket.getLink({ name: ifname });
  if (link === undefined || isEnd?.(link) === false) return false;
  const present = await socket.listAddresses({ index: link.index });
  return valuesOf(addresses).every((address) =>
    present.some(({ prefix }) => prefix.address.equals(address))
  );
}
