import type { Address, DualStack } from "../inet/mod.ts";
import type { Netns } from "../linux/mod.ts";
import {
  type Link,
  type Notification,
  RouteMonitor,
  RouteSocket,
} from "../netlink/mod.ts";
import { getLogger } from "../telemetry/mod.ts";
import { parseLink } from "./base/alias.ts";
import {
  type EndLack,
  helpfulSteps,
  lacksOfEnd,
  missingSteps,
} from "./host/host_end_state.ts";
import { ensureHost, type HostReport, readHost } from "./host/host_init.ts";
import { lackText, planHost } from "./host/host_state.ts";
import type { KnownPods } from "./state/known_pods.ts";
import { applySteps } from "./links/link_end.ts";
import type { Settings } from "./plan/options.ts";
import { type HostEndInput, raiseSteps } from "./plan/plan.ts";
import type { PodLink } from "./state/survey.ts";
import { type AttachmentKey, sameKey } from "../cni/mod.ts";

export interface UpkeepDependencies {
  readonly settings: Settings;
  /** For changes, which are answered at once. */
  readonly host: RouteSocket;
  readonly lists: RouteSocket;
  /** The numbers of all sockets whose changes are the pod network's own. */
  readonly portIds: readonly number[];
  readonly nodeAddresses: () => DualStack<Address>;
  /** The living pods by their links. */
  readonly known: Pick<KnownPods, "has" | "set">;
  readonly openNetns: (key: AttachmentKey) => Promise<Netns | undefined>;
}

/** The parts of a node's network that are looked after apart from each other. */
export type UpkeepPart = "host" | "pods" | "export";

/** The addresses of links, by their index. */
export type LinkAddresses = ReadonlyMap<number, readonly Address[]>;

/** The index of `lo`, which the routes of the export table lead to. */
const LOOPBACK_INDEX = 1;

/**
 * Sees whether what start and ADD made is still there, and puts it back:
 * other programs remove what they do not know. The kernel reports what they
 * remove, but not what a socket's own changes cause.
 */
export class Upkeep {
  readonly #with: UpkeepDependencies;

  constructor(parts: UpkeepDependencies) {
    this.#with = parts;
  }

  /** Puts rules and sysctls right. @throws {NetlinkError} when they cannot be read */
  ensureHost(): Promise<HostReport> {
    const { host, settings } = this.#with;
    const { hostNetns, rulePriority, tableId } = settings;
    return ensureHost(host, { rulePriority, tableId, netns: hostNetns });
  }

  /** What of rules and sysctls is missing for pods with these addresses, in words. */
  async findHostLacks(addresses: DualStack<Address>): Promise<string[]> {
    const { lists, settings } = this.#with;
    const { hostNetns } = settings;
    const found = await readHost(lists, { netns: hostNetns });
    const { lacks, problems } = planHost(settings, found);
    return [
      ...lacks.filter(({ family }) => addresses[family]).map(lackText),
      ...problems.filter(({ family }) => addresses[family])
        .map(({ message }) => message),
    ];
  }

  /** Whether a host veth has what pods with these addresses have as gateway, in words when it has not. */
  async checkGateway(
    link: Link,
    addresses: DualStack<Address>,
  ): Promise<string[]> {
    const { index, mac, name } = link;
    const present = await this.#with.lists.listAddresses({ index });
    const found = {
      pod: { addresses },
      addresses: present.map(({ prefix }) => prefix.address),
    };
    const input = this.#inputOf(
      { ...(mac !== undefined && { mac }) },
      addresses,
    );
    return missingSteps(found, input).flatMap((step) =>
      step.kind === "address"
        ? [`host link "${name}" does not have address "${step.address}"`]
        : []
    );
  }

  /** Lists the addresses of all links of the host. */
  async listAddresses(): Promise<LinkAddresses> {
    const byLink = new Map<number, Address[]>();
    for (const { index, prefix } of await this.#with.lists.listAddresses()) {
      byLink.getOrInsertComputed(index, () => []).push(prefix.address);
    }
    return byLink;
  }

  /** What a pod's end on the host lacks. `addresses` are those that the pod should have. */
  findEndLacks(
    pod: PodLink,
    { addresses, present }: {
      readonly addresses: DualStack<Address>;
      readonly present: LinkAddresses;
    },
  ): EndLack[] {
    const found = { pod, addresses: present.get(pod.index) ?? [] };
    return lacksOfEnd(found, this.#inputOf(pod, addresses));
  }

  /**
   * Gives a pod's end on the host what it lacks. Does nothing when the link is
   * no longer that pod's. The caller makes sure that the pod is not torn
   * down in the meantime.
   *
   * @throws {NetlinkError} of the first step that the kernel refused
   */
  async restoreEnd(
    pod: PodLink,
    addresses: DualStack<Address>,
  ): Promise<EndLack[]> {
    const { host, known, settings: { hostNetns } } = this.#with;
    const link = await host.getLink({ index: pod.index });
    if (link === undefined || !isOf(link, pod)) return [];
    known.set(link.index, { addresses });
    const end = {
      socket: host,
      index: link.index,
      name: link.name,
      netns: hostNetns,
    };
    const now = { ...pod, up: link.up };
    const present = await host.listAddresses({ index: link.index });
    const found = {
      pod: now,
      addresses: present.map(({ prefix }) => prefix.address),
    };
    const bare = this.#inputOf(pod, addresses);
    const lacks = lacksOfEnd(found, bare);
    if (!link.up) await applySteps(end, raiseSteps({ addresses }));
    await applySteps(end, missingSteps(found, bare));
    if (lacks.some((lack) => lack !== "route")) {
      const input = await this.#withPodMac(pod, bare);
      await applySteps(end, helpfulSteps(input)).catch((err) =>
        getLogger("pod-network").debug("Cannot warm up a pod's end", { err })
      );
    }
    return lacks;
  }

  /** Listens to what others change. `ownPortIds` are the caller's own sockets, beside those of the pod network. */
  watch(
    options: {
      readonly exportTableId: number;
      readonly ownPortIds?: readonly number[];
    },
  ): RouteMonitor {
    const { portIds, settings: { hostNetns, tableId } } = this.#with;
    return RouteMonitor.open({
      interests: {
        rules: true,
        routes: [{ table: tableId }, { table: options.exportTableId }],
        links: ["down"],
        addresses: "gone",
        forwarding: true,
      },
      ignoredPortIds: [...portIds, ...options.ownPortIds ?? []],
      netns: hostNetns,
    });
  }

  /** Which parts a notification is about. */
  partsOf(notification: Notification): readonly UpkeepPart[] {
    switch (notification.kind) {
      case "rule":
      case "forwarding":
        return ["host"];
      case "route":
        return notification.table === this.#with.settings.tableId
          ? ["pods"]
          : ["export"];
      case "link":
      case "address":
        if (notification.index === LOOPBACK_INDEX) return ["export"];
        return this.#with.known.has(notification.index) ? ["pods"] : [];
      case "overflow":
        return ["host", "pods", "export"];
    }
  }

  #inputOf(
    pod: Pick<PodLink, "mac">,
    addresses: DualStack<Address>,
  ): HostEndInput {
    const { nodeAddresses, settings } = this.#with;
    return {
      addresses,
      hostMac: pod.mac ?? "",
      nodeAddresses: nodeAddresses(),
      tableId: settings.tableId,
      protocolId: settings.protocolId,
      gatewayMode: settings.gatewayMode,
    };
  }

  async #withPodMac(
    pod: PodLink,
    input: HostEndInput,
  ): Promise<HostEndInput> {
    try {
      using netns = await this.#with.openNetns(pod);
      if (netns === undefined) return input;
      using socket = RouteSocket.open({ netns });
      const podMac = (await socket.getLink({ name: pod.ifname }))?.mac;
      return podMac === undefined ? input : { ...input, podMac };
    } catch {
      return input;
    }
  }
}

function isOf(link: Link, pod: PodLink): boolean {
  const parsed = parseLink(link);
  return parsed.kind === "pod" && sameKey(parsed.identity, pod);
}
