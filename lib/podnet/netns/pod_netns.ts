import { LinuxError, Netns, NotANetnsError } from "../../linux/mod.ts";
import { NetnsNotFoundError } from "../base/errors.ts";

/** ENOENT and ENOTDIR: no such file. ELOOP and ENAMETOOLONG: there cannot be one. ENXIO: a socket. */
const MISSING = new Set([
  "ENOENT",
  "ENOTDIR",
  "ELOOP",
  "ENAMETOOLONG",
  "ENXIO",
]);

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
 * As {@linkcode openPodNetns}, but undefined when there is none at that path.
 *
 * @throws {LinuxError} when it cannot be opened for another reason
 */
export function tryOpenPodNetns(path: string): Netns | undefined {
  try {
    return openPodNetns(path);
  } catch (error) {
    if (error instanceof NetnsNotFoundError) return undefined;
    throw error;
  }
}

/** Whether it is the host's own network namespace. `host` is absent when that is the process's own. */
export function isHostNetns(netns: Netns, host: Netns | undefined): boolean {
  return host === undefined ? netns.isOwn : netns.sameAs(host);
}

/**
 * Refuses the host's own network namespace, as {@linkcode isHostNetns} knows
 * it: a veth would have its peer's name and routes there.
 *
 * @throws {TypeError} when it is that one
 */
export function refuseHost(netns: Netns, host: Netns | undefined): void {
  if (!isHostNetns(netns, host)) return;
  throw new TypeError(
    `Cannot connect network namespace "${netns.path}": it is the host's own`,
  );
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
