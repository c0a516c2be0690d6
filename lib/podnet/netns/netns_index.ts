import { netnsIdGet, type RouteSocket } from "../../netlink/mod.ts";
import { namespacePaths, tryOpenPodNetns } from "./pod_netns.ts";

/**
 * The paths of network namespaces by the number that the host has for them.
 *
 * Recreated when a number is not in it, so that all pods of a node cost one
 * look at each namespace. What it says has to be proved: numbers are given
 * again, and so are names.
 */
export class NetnsIndex {
  readonly #host: RouteSocket;
  #paths: ReadonlyMap<number, string> = new Map();

  constructor(host: RouteSocket) {
    this.#host = host;
  }

  /** Where the namespace was last seen; undefined when it has no path. */
  async pathOf(id: number): Promise<string | undefined> {
    return this.#paths.get(id) ?? (await this.refresh()).get(id);
  }

  /** Looks at all namespaces. */
  async refresh(): Promise<ReadonlyMap<number, string>> {
    const paths = new Map<number, string>();
    for (const path of namespacePaths()) {
      const id = await this.#idOf(path);
      if (id !== undefined) paths.set(id, path);
    }
    return this.#paths = paths;
  }

  async #idOf(path: string): Promise<number | undefined> {
    using netns = tryOpenPodNetns(path);
    if (netns === undefined) return undefined;
    let id: number | undefined;
    await this.#host.execute([netnsIdGet(netns, (known) => id = known)]);
    return id;
  }
}
