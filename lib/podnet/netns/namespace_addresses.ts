import { RouteSocket } from "../../netlink/mod.ts";
import { namespacePaths, tryOpenPodNetns } from "./pod_netns.ts";

/**
 * Lists the addresses that interfaces have in the network namespaces that
 * runtimes keep, each with the path of one namespace. Slow: each is opened.
 *
 * @throws {LinuxError} or {NetlinkError} when one cannot be looked into: what it has is not known then
 */
export async function addressesInNamespaces(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const path of namespacePaths()) {
    using netns = tryOpenPodNetns(path);
    if (netns === undefined) continue;
    using socket = RouteSocket.open({ netns });
    for (const { prefix } of await socket.listAddresses()) {
      found.set(`${prefix.address}`, path);
    }
  }
  return found;
}
