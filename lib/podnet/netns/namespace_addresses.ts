import { RouteSocket } from "../../netlink/mod.ts";
import { NetnsNotFoundError } from "../base/errors.ts";
import { namespacePaths, openPodNetns } from "./pod_netns.ts";

/**
 * Lists the addresses that interfaces have in the network namespaces that
 * runtimes keep, each with the path of one namespace. Slow: each is opened.
 *
 * @throws {LinuxError} or {NetlinkError} when one cannot be looked into: what it has is not known then
 */
export async function addressesInNamespaces(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const path of namespacePaths()) {
    try {
      using netns = openPodNetns(path);
      using socket = RouteSocket.open({ netns });
      for (const { prefix } of await socket.listAddresses()) {
        found.set(`${prefix.address}`, path);
      }
    } catch (error) {
      // A file that names no network namespace, or no longer does.
      if (!(error instanceof NetnsNotFoundError)) throw error;
    }
  }
  return found;
}
