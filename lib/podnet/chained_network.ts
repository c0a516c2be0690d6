import { messageOf } from "../errors/mod.ts";
import { type Address, type DualStack, valuesOf } from "../inet/mod.ts";
import type { Netns } from "../linux/mod.ts";
import { type Link, linkSet, RouteSocket } from "../netlink/mod.ts";
import { formatAlias, parseLink } from "./base/alias.ts";
import { findByAddress } from "./state/address_search.ts";
import { IfnameMissingError, PodCheckError } from "./base/errors.ts";
import { findHostEnd } from "./host/host_end.ts";
import { NetnsIndex } from "./netns/netns_index.ts";
import { openPodNetns, refuseHost } from "./netns/pod_netns.ts";
import { openIfHas } from "./netns/find_netns.ts";

/** A pod that another plugin connected. */
export interface ChainedPod {
  /** The pod's UID. */
  readonly id: string;
  /** The interface inside the pod. */
  readonly ifname: string;
  readonly addresses: DualStack<Address>;
}

/** A pod and where it is. */
export interface PlacedPod extends ChainedPod {
  /** The path of its network namespace. */
  readonly netnsPath: string;
}

/** Result of `adopt()`. */
export interface Adopted {
  /** Name of the host's end; absent when there is none, or another program marked it. */
  readonly hostName?: string;
}

/**
 * Pods that other plugins connected. They are only found again here: by the
 * mark `COIL::<pod UID>:<interface>` that `adopt()` leaves as alias on the
 * host's end, as upstream Coil does, and where there is no such end, by the
 * path that the runtime gave, or by their addresses.
 */
export class ChainedNetwork implements Disposable {
  readonly #host: RouteSocket;
  readonly #hostNetns: Netns | undefined;
  readonly #namespaces: NetnsIndex;
  readonly #paths = new Map<string, string>();

  private constructor(hostNetns: Netns | undefined) {
    this.#hostNetns = hostNetns;
    this.#host = RouteSocket.open({ netns: hostNetns });
    this.#namespaces = new NetnsIndex(this.#host);
  }

  /** Opens a socket to the kernel; changes nothing. `hostNetns` stays the caller's; absent: the process's own. */
  static open(options: { readonly hostNetns?: Netns } = {}): ChainedNetwork {
    return new ChainedNetwork(options.hostNetns);
  }

  /**
   * Marks a pod's host end, and remembers where the pod is. Idempotent. An
   * alias of another program is left alone.
   *
   * @throws {NetnsNotFoundError} when there is no network namespace at the path
   * @throws {IfnameMissingError} when the pod has no such interface
   */
  async adopt(pod: PlacedPod): Promise<Adopted> {
    using netns = openPodNetns(pod.netnsPath);
    refuseHost(netns, this.#hostNetns);
    const end = await this.#hostEndOf(pod, netns);
    this.#paths.set(keyOf(pod), pod.netnsPath);
    if (end === undefined) return {};
    const alias = aliasOf(pod);
    if (end.alias !== alias) {
      if (isForeign(end)) return {};
      await this.#host.execute([linkSet({ index: end.index }, { alias })]);
    }
    return { hostName: end.name };
  }

  /** Takes the mark of `adopt()` off again, and forgets the pod. */
  async abandon(pod: ChainedPod): Promise<void> {
    this.forget(pod);
    const end = await this.#marked(pod);
    if (end === undefined) return;
    await this.#host.execute([linkSet({ index: end.index }, { alias: "" })]);
  }

  /** Forgets where a pod is. */
  forget(pod: Pick<ChainedPod, "id" | "ifname">): void {
    this.#paths.delete(keyOf(pod));
  }

  /** Opens a pod's network namespace; undefined when there is none. What was remembered has to prove itself. */
  async openNetns(pod: ChainedPod): Promise<Netns | undefined> {
    const known = this.#paths.get(keyOf(pod));
    const netns = known === undefined ? undefined : await openIfHas(known, pod);
    if (netns !== undefined) return netns;
    await this.find([pod]);
    const path = this.#paths.get(keyOf(pod));
    return path === undefined ? undefined : await openIfHas(path, pod);
  }

  /**
   * Finds pods that an earlier process adopted, or none did. Returns
   * those that are found; `openNetns()` knows where they are then. Addresses
   * that several namespaces have prove nothing.
   */
  async find<T extends ChainedPod>(pods: readonly T[]): Promise<T[]> {
    const byAlias = await this.#linksByAlias();
    const rest: T[] = [];
    for (const pod of pods) {
      this.forget(pod);
      const path = await this.#pathBehind(byAlias.get(aliasOf(pod)), pod);
      if (path === undefined) rest.push(pod);
      else this.#paths.set(keyOf(pod), path);
    }
    // mutate: without pods it finds nothing.
    if (rest.length > 0) {
      const hostNetns = this.#hostNetns;
      const paths = await findByAddress(rest, { hostNetns });
      for (const [pod, path] of paths) this.#paths.set(keyOf(pod), path);
    }
    return pods.filter((pod) => this.#paths.has(keyOf(pod)));
  }

  /**
   * Confirms that a pod's interface is there, and marked where it can be.
   *
   * @throws {PodCheckError} when something is missing or wrong; it says what
   */
  async check(
    pod: ChainedPod & { readonly netnsPath?: string },
  ): Promise<void> {
    const { netnsPath } = pod;
    const problems = netnsPath === undefined
      ? await this.#checkKnown(pod)
      : await this.#checkPlaced({ ...pod, netnsPath });
    if (problems.length > 0) throw new PodCheckError(pod.id, problems);
  }

  /** Closes the socket. */
  [Symbol.dispose](): void {
    this.#host[Symbol.dispose]();
  }

  async #hostEndOf(pod: PlacedPod, netns: Netns): Promise<Link | undefined> {
    using socket = RouteSocket.open({ netns });
    const link = await socket.getLink({ name: pod.ifname });
    if (link === undefined) {
      throw new IfnameMissingError(pod.ifname, pod.netnsPath);
    }
    const [host, hostNetns] = [this.#host, this.#hostNetns];
    return await findHostEnd({ link, netns, pod: socket, host, hostNetns });
  }

  async #linksByAlias(): Promise<Map<string, Link>> {
    const links = await this.#host.listLinks();
    return new Map(
      links.flatMap((link) =>
        link.alias === undefined ? [] : [[link.alias, link]]
      ),
    );
  }

  async #marked(pod: ChainedPod): Promise<Link | undefined> {
    return (await this.#linksByAlias()).get(aliasOf(pod));
  }

  async #pathBehind(
    end: Link | undefined,
    pod: ChainedPod,
  ): Promise<string | undefined> {
    if (end?.peerNetnsId === undefined) return undefined;
    const path = await this.#namespaces.pathOf(end.peerNetnsId);
    const wanted = {
      ifname: pod.ifname,
      addresses: {},
      isEnd: (link: Link) =>
        link.index === end.peerIndex && link.peerIndex === end.index,
    };
    using netns = path && await openIfHas(path, wanted) || undefined;
    if (netns !== undefined) return netns.path;
    const again = (await this.#namespaces.refresh()).get(end.peerNetnsId);
    using found = again && await openIfHas(again, wanted) || undefined;
    return found?.path;
  }

  async #checkKnown(pod: ChainedPod): Promise<string[]> {
    if (await this.#marked(pod) !== undefined) return [];
    using netns = await this.openNetns(pod);
    return netns === undefined ? ["this node does not know it"] : [];
  }

  async #checkPlaced(pod: PlacedPod): Promise<string[]> {
    const where = `interface "${pod.ifname}" in "${pod.netnsPath}"`;
    try {
      using netns = openPodNetns(pod.netnsPath);
      const end = await this.#hostEndOf(pod, netns);
      const isMarked = end === undefined || end.alias === aliasOf(pod) ||
        isForeign(end);
      if (!isMarked) return [`host link "${end.name}" has no mark of this pod`];
      using found = await openIfHas(pod.netnsPath, pod);
      if (found !== undefined) return [];
      const addresses = valuesOf(pod.addresses).join(", ");
      return [`${where} does not have all of ${addresses}`];
    } catch (error) {
      return [messageOf(error)];
    }
  }
}

function keyOf({ id, ifname }: Pick<ChainedPod, "id" | "ifname">): string {
  return `${id}:${ifname}`;
}

function aliasOf({ id, ifname }: ChainedPod): string {
  return formatAlias({ pool: "", containerId: id, ifname });
}

function isForeign(link: Link): boolean {
  const { alias } = link;
  return alias !== undefined && alias !== "" &&
    parseLink(link).kind === "foreign";
}
