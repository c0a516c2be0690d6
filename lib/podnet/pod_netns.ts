import { LinuxError, Netns, NotANetnsError } from "../linux/mod.ts";
import { RouteSocket } from "../netlink/mod.ts";
import { valuesOf } from "../inet/mod.ts";
import { NetnsNotFoundError } from "./errors.ts";
import type { PodLink } from "./survey.ts";

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

/**
 * Finds the network namespace that a pod's end is in, starting with the
 * likely path. Each candidate has to prove itself: the path may have gone to
 * another namespace meanwhile.
 */
export async function findPodNetns(
  pod: PodLink,
  options: { readonly likelyPath?: string | undefined },
): Promise<Netns | undefined> {
  const { likelyPath } = options;
  if (likelyPath !== undefined) {
    const netns = await openIfOf(pod, likelyPath);
    if (netns !== undefined) return netns;
  }
  for (const path of namespacePaths()) {
    const netns = await openIfOf(pod, path);
    if (netns !== undefined) return netns;
  }
  return undefined;
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
  pod: PodLink,
  path: string,
): Promise<Netns | undefined> {
  let netns: Netns | undefined;
  try {
    netns = openPodNetns(path);
    using socket = RouteSocket.open({ netns });
    const link = await socket.getLink({ name: pod.ifname });
    if (
      link !== undefined && link.index === pod.peerIndex &&
      link.peerIndex === pod.index &&
      await hasAddresses(socket, { index: link.index, pod })
    ) {
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

async function hasAddresses(
  socket: RouteSocket,
  { index, pod }: { readonly index: number; readonly pod: PodLink },
): Promise<boolean> {
  const present = await socket.listAddresses({ index });
  return valuesOf(pod.addresses).every((address) =>
    present.some(({ prefix }) => prefix.address.equals(address))
  );
}
