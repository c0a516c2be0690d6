import type { Address, DualStack, Prefix } from "../inet/mod.ts";
import type { Netns } from "../linux/mod.ts";
import { type Link, MAIN_TABLE, RouteSocket } from "../netlink/mod.ts";
import { getLogger } from "../telemetry/mod.ts";
import { parseLink } from "./base/alias.ts";
import { applySources } from "./pods/apply_sources.ts";
import type {
  CheckRequest,
  CutOff,
  InitReport,
  SeenLink,
  SeenTeardown,
  SetupRequest,
  SetupResult,
} from "./pods/calls.ts";
import { checkHost, checkPod } from "./state/check.ts";
import { PodCheckError } from "./base/errors.ts";
import { HuskReaper, isLinkOf } from "./links/husk_reaper.ts";
import { KnownPods } from "./state/known_pods.ts";
import { LinkIndexes } from "./links/link_indexes.ts";
import { LinkFinder, linksOf } from "./links/link_finder.ts";
import { LinkRemoval } from "./pods/link_removal.ts";
import { findLostAddresses } from "./state/lost_addresses.ts";
import { markedMac, randomMac } from "./base/mac.ts";
import { addressesInNamespaces } from "./netns/namespace_addresses.ts";
import { NetnsIndex } from "./netns/netns_index.ts";
import { detectMtu } from "./base/mtu.ts";
import {
  type PodNetworkOptions,
  type Settings,
  settingsOf,
} from "./plan/options.ts";
import { planPod } from "./plan/plan.ts";
import { PodLocks } from "./pods/pod_locks.ts";
import { openPodNetns, refuseHost } from "./netns/pod_netns.ts";
import { refreshSources } from "./state/route_sources.ts";
import { connectPod } from "./pods/setup.ts";
import type { PodSources } from "./base/sources.ts";
import { listSteadyRoutes, routedWithin } from "./state/steady_routes.ts";
import { type PodLink, type Survey, surveyOf } from "./state/survey.ts";
import { Upkeep } from "./upkeep.ts";
import type { AttachmentKey } from "../cni/mod.ts";
import { findPodNetns } from "./netns/find_netns.ts";
import type { NamespacedName } from "../names/mod.ts";

/**
 * Connects pods to their node by veth pairs and routes. The kernel is the only
 * store: what exists is read back from links and routes.
 *
 * One key is worked on by one call at a time; different keys never wait for
 * each other except for the kernel's own lock.
 */
export class PodNetwork implements Disposable {
  /** Sees whether what is made here is still there. */
  readonly upkeep: Upkeep;
  readonly #settings: Settings;
  readonly #host: RouteSocket;
  /** Lists, so that a long one keeps no ADD waiting. */
  readonly #lists: RouteSocket;
  readonly #deletions: RouteSocket;
  readonly #reaper: HuskReaper;
  readonly #removal: LinkRemoval;
  readonly #finder: LinkFinder;
  readonly #indexes: LinkIndexes;
  readonly #locks: PodLocks;
  readonly #known: KnownPods;
  readonly #namespaces: NetnsIndex;
  #nodeAddresses: DualStack<Address>;
  /** What new pods get; 0 leaves it to the kernel. */
  #mtu: number;
  readonly #fixedMtu: boolean;

  private constructor(options: PodNetworkOptions) {
    this.#settings = settingsOf(options);
    const { hostNetns, tableId } = this.#settings;
    const where = { netns: hostNetns };
    this.#host = RouteSocket.open(where);
    this.#lists = RouteSocket.open(where);
    this.#deletions = RouteSocket.open(where);
    this.#reaper = new HuskReaper(this.#deletions, {
      random: this.#settings.random,
      isHusk: isLinkOf,
    });
    this.#finder = new LinkFinder(
      { host: this.#host, lists: this.#lists },
      this.#settings,
    );
    this.#locks = new PodLocks(this.#settings);
    this.#known = new KnownPods(this.#lists, this.#settings);
    this.#removal = new LinkRemoval({
      host: this.#host,
      deletions: this.#deletions,
      reaper: this.#reaper,
      finder: this.#finder,
      known: this.#known,
      tableId,
    });
    this.#indexes = new LinkIndexes({
      random: this.#settings.random,
      isTaken: (index) => this.#known.has(index),
    });
    this.#namespaces = new NetnsIndex(this.#lists);
    this.#nodeAddresses = options.nodeAddresses ?? {};
    this.#mtu = options.mtu ?? 0;
    this.#fixedMtu = options.mtu !== undefined;
    this.upkeep = new Upkeep({
      settings: this.#settings,
      host: this.#host,
      lists: this.#lists,
      portIds: [this.#host, this.#lists, this.#deletions].map((s) => s.portId),
      nodeAddresses: () => this.#nodeAddresses,
      known: this.#known,
      openNetns: (key) => this.openNetns(key),
    });
  }

  /**
   * Opens sockets to the kernel; changes nothing.
   *
   * @throws {LinuxError} when the kernel refuses
   */
  static open(options: PodNetworkOptions = {}): PodNetwork {
    return new PodNetwork(options);
  }

  /**
   * Prepares the node: forwarding, the rule for the pod table, MTU. Idempotent.
   * What fails is logged and reported, and does not keep the rest from being done.
   *
   * @throws {NetlinkError} when links or routes cannot be listed
   */
  async init(): Promise<InitReport> {
    const { problems } = await this.upkeep.ensureHost();
    for (const err of problems) {
      getLogger("pod-network").error("Failed to prepare the node", { err });
    }
    const links = await this.#lists.listLinks();
    if (!this.#fixedMtu) {
      const routes = await this.#lists.listRoutes({ table: MAIN_TABLE });
      this.#mtu = detectMtu(links, routes);
    }
    await this.survey();
    return { mtu: this.#mtu, problems };
  }

  /** New pods get routes with these source addresses; see `refreshRoutes()` for those that exist. */
  setNodeAddresses(addresses: DualStack<Address>): void {
    this.#nodeAddresses = addresses;
  }

  /**
   * Makes a pod's network. What an earlier attempt with the same key left, or
   * made, is removed first. On failure nothing is left.
   *
   * @throws {NetnsNotFoundError} when there is no network namespace at the path
   * @throws {IfnameTakenError} when the pod has an interface of that name
   * @throws {LinkNameError} when the link cannot have the pod's name as its alias
   * @throws {TypeError} when the request makes no sense otherwise
   * @throws {NetlinkError} when the kernel refuses
   */
  async setup(
    request: SetupRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<SetupResult> {
    using _lock = await this.#locks.lock(request, {
      ...options,
      pod: request.pod,
    });
    using netns = openPodNetns(request.netnsPath);
    const { random, hostNetns } = this.#settings;
    refuseHost(netns, hostNetns);
    const macs = {
      hostMac: request.pod ? markedMac(request.pod) : randomMac(random),
      podMac: randomMac(random),
    };
    const names = this.#finder.namesFor(request, request.pod);
    const plan = planPod({
      ...request,
      ...this.#settings,
      ...macs,
      sources: request.sources ?? "own",
      hostVethName: names[0] ?? "",
      nodeAddresses: this.#nodeAddresses,
      mtu: this.#mtu,
    });
    const older = await this.#finder.findIrregular(request);
    if (older !== undefined) await this.#removal.remove(older);
    const pod = await connectPod(
      {
        host: this.#host,
        deletions: this.#deletions,
        netns,
        names,
        indexes: this.#indexes,
        clear: (link) => this.#clear(link, request),
        clearPeer: (link, pod) =>
          this.#removal.removePeer({
            link,
            pod,
            netns,
            hostNetns,
            host: this.#host,
          }),
        hostNetns,
      },
      plan,
      options,
    );
    const { hostName, hostIndex } = pod;
    const { addresses, netnsPath } = request;
    const isFirst = older === undefined && pod.isFirst;
    this.#known.set(hostIndex, { addresses, netnsPath });
    // mutate: else the name follows from the key, which its hash would only confirm.
    if (!pod.isFirst || this.#settings.calico) {
      this.#finder.remember([{ ...request, index: hostIndex, hostName }]);
    }
    return { hostName, hostIndex, ...macs, mtu: this.#mtu, isFirst };
  }

  /**
   * Cuts a pod off: its routes are gone when this returns, its veth is a husk.
   * Fast, since it waits for no grace period of the kernel. Returns undefined
   * when there is nothing of that key.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async beginTeardown(
    key: AttachmentKey,
    options: { readonly pod?: NamespacedName; readonly signal?: AbortSignal } =
      {},
  ): Promise<CutOff | undefined> {
    using _lock = await this.#locks.lock(key, options);
    const found = await this.#finder.find(key, options.pod);
    return found && await this.#removal.cutOff(found);
  }

  /**
   * Cuts off just the link that was seen, not one that took its place since:
   * a link that is gone, or serves another key by now, is left alone.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async beginTeardownOf(
    seen: SeenLink,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<SeenTeardown> {
    using _lock = await this.#locks.lock(seen, options);
    const links = linksOf(seen, await this.#lists.listLinks());
    const found = links.find(({ link }) => link.index === seen.index);
    return {
      isLast: links.every((link) => link === found),
      teardown: found && await this.#removal.cutOff(found),
    };
  }

  /**
   * Returns when the husk is gone; it goes together with those of other
   * teardowns. Only then may the pod's addresses be given to others.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async finishTeardown(teardown: CutOff): Promise<void> {
    await this.#reaper.delete(teardown.husk);
  }

  /** Deletes all husks that exist, such as those of a former process. Returns how many there were. */
  async finishHusks(): Promise<number> {
    const { husks } = await this.survey();
    await Promise.all(husks.map((husk) => this.#reaper.delete(husk)));
    return husks.length;
  }

  /** Lists the pods of the node as the kernel knows them. */
  async list(): Promise<readonly PodLink[]> {
    return (await this.survey()).pods;
  }

  /** Reads from links and routes: pods, husks, and what is there beside them. Changes nothing. */
  async survey(): Promise<Survey> {
    const links = await this.#lists.listLinks();
    const { tableId, registerFromMain } = this.#settings;
    const tables = registerFromMain ? [tableId, MAIN_TABLE] : [tableId];
    const routes = await listSteadyRoutes(this.#lists, tables);
    const survey = surveyOf(links, routes, this.#settings);
    this.#finder.remember(survey.pods);
    this.#known.learn(survey.pods, new Set(links.map(({ index }) => index)));
    return survey;
  }

  /** Lists the addresses within the prefixes that the pod table leads to, also by a link whose alias does not name them. */
  async routedWithin(prefixes: readonly Prefix[]): Promise<Address[]> {
    const { tableId: table } = this.#settings;
    return await routedWithin(this.#lists, { table, prefixes });
  }

  /** See {@linkcode addressesInNamespaces}. */
  async addressesInNamespaces(): Promise<ReadonlyMap<string, string>> {
    return await addressesInNamespaces();
  }

  /**
   * Confirms that a pod's network is whole.
   *
   * @throws {PodCheckError} when something is missing or wrong; it says what
   */
  async check(request: CheckRequest): Promise<void> {
    const { containerId, ifname, addresses, netnsPath, pod } = request;
    const found = await this.#finder.find(request, pod);
    if (found?.state !== "pod") {
      throw new PodCheckError(containerId, ["it has no host link"]);
    }
    const { tableId } = this.#settings;
    const expected = { host: found.link, ifname, addresses, tableId };
    const problems = [
      ...await this.upkeep.findHostLacks(addresses),
      ...await checkHost(this.#lists, expected),
      ...await this.upkeep.checkGateway(found.link, addresses),
      ...(netnsPath === undefined ? [] : await checkPod(netnsPath, expected)),
    ];
    if (problems.length > 0) throw new PodCheckError(containerId, problems);
  }

  /**
   * Gives the routes of existing pods the node's current addresses as their
   * source, after `setNodeAddresses()`. Returns how many were changed.
   *
   * @throws {NetlinkError} of the first route that the kernel refused; the others are done
   */
  async refreshRoutes(): Promise<number> {
    const { pods } = await this.survey();
    return await refreshSources(this.#host, pods, {
      ...this.#settings,
      nodeAddresses: this.#nodeAddresses,
    });
  }

  /**
   * Finds out the addresses of pods that have no routes on the host, by the
   * index of the host's end: another program emptied the pod table. Those that
   * cannot be found are left out, as is an ADD that did not come that far.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async findLostAddresses(
    pods: readonly PodLink[],
  ): Promise<ReadonlyMap<number, DualStack<Address>>> {
    return await findLostAddresses(this.#lists, pods);
  }

  /**
   * Has the host take these sources from a pod, whose link is looked at again
   * first. Idempotent. Returns whether the link is still there and the pod's.
   *
   * @throws {NetlinkError} when the kernel refuses
   */
  async setSources(
    pod: PodLink,
    sources: PodSources,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<boolean> {
    using _lock = await this.#locks.lock(pod, options);
    const finder = this.#finder;
    return await applySources(this.#host, pod, { sources, finder });
  }

  /** Opens the network namespace of a pod's end: where this process set it up, else among those of the host; undefined when there is none. */
  async openNetns(key: AttachmentKey): Promise<Netns | undefined> {
    const found = await this.#finder.find(key);
    if (found?.state !== "pod") return undefined;
    const { link } = found;
    const addresses = await this.#known.addressesOf(link.index);
    return await findPodNetns({ link, addresses, ifname: key.ifname }, {
      likelyPath: this.#known.netnsPathOf(link.index),
      index: this.#namespaces,
    });
  }

  /** Closes the sockets. Teardowns that run come to their end. */
  [Symbol.dispose](): void {
    this.#host[Symbol.dispose]();
    this.#lists[Symbol.dispose]();
    this.#deletions[Symbol.dispose]();
  }

  /** In Calico mode the name belongs to the pod: an older container of it has to give way. */
  async #clear(link: Link, key: AttachmentKey): Promise<boolean> {
    const own = this.#finder.classify(link, key);
    if (own !== "other") {
      await this.#removal.remove(own);
      return true;
    }
    const parsed = parseLink(link);
    // mutate: else the name is tried twice more before the next one.
    if (!this.#settings.calico) return false;
    if (parsed.kind !== "pod" && parsed.kind !== "husk") return false;
    const { identity, kind } = parsed;
    await this.#removal.remove({ link, identity, state: kind });
    return true;
  }
}
