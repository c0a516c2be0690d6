import {
  type AnnounceClient,
  MAX_TRANSLATED,
  type TranslatedSource,
} from "../../../lib/announce/mod.ts";
import {
  EGRESSES,
  gatewayEgress,
  parseDestinations,
} from "../../../lib/api/mod.ts";
import { type Clock, everyAbout, systemClock } from "../../../lib/async/mod.ts";
import { type Address, FAMILIES, type Prefix } from "../../../lib/inet/mod.ts";
import type { KubeClient, V1Pod } from "../../../lib/kube/mod.ts";
import { LinuxError } from "../../../lib/linux/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";
import {
  CONNTRACK_STATUS,
  type ConntrackFilter,
  type ConntrackFlow,
  ConntrackSocket,
  NetlinkError,
} from "../../../lib/netlink/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import { isUnanswered, type PodSource } from "../cluster/pod_source.ts";
import { hasOwnNetwork, podAddresses } from "../cluster/pod_status.ts";

const log = getLogger("egress");

/** Gateways forget what is not said again within ten minutes. */
const INTERVAL_MS = 60_000;

/** The kernel picks the connections that one address has opened eight times as fast as all are read; of more addresses, all are. */
const MAX_FILTERED = 7;

/** IPPROTO_UDP. */
const UDP = 17;

const GET_MS = 5_000;

/** The kernel's connections. */
export type Conntrack = Pick<ConntrackSocket, "visit"> & AsyncDisposable;

export interface SourceLookOptions {
  readonly client: Pick<KubeClient, "tryGet">;
  readonly announcer: Pick<AnnounceClient, "reportSources">;
  readonly pods: Pick<PodSource, "list">;
  /** The UDP port of tunnels. */
  readonly port: number;
  /** Opens a socket in the node's network namespace. */
  readonly open?: (() => Conntrack) | undefined;
  readonly clock?: Clock | undefined;
}

/** A gateway of this node. */
interface Gateway {
  readonly egress: NamespacedName;
  readonly addresses: readonly Address[];
}

/**
 * Looks in the node's table of connections whether the node translates the
 * sources of its gateways' packets, e.g. by a rule that masquerades all that
 * leaves the cluster: outside networks see other addresses then than the Egress
 * says. The gateway cannot see that itself, so it is reported to it, again and
 * again while it is so.
 *
 * Nodes without gateways do nothing. Only connections to the destinations of
 * the Egress count: others are the gateway's own. The API server is asked for
 * those only when a translation was found.
 */
export class SourceLook {
  readonly #with: SourceLookOptions;
  readonly #open: () => Conntrack;
  readonly #found = new RepeatFilter({ remindMs: Infinity });
  readonly #failures = new RepeatFilter();

  constructor(options: SourceLookOptions) {
    this.#with = options;
    this.#open = options.open ?? (() => ConntrackSocket.open());
  }

  /** Looks about once a minute, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock = systemClock } = this.#with;
    await everyAbout(INTERVAL_MS, () => this.look(signal), { signal, clock });
  }

  /** Looks once. What fails is logged, and is tried again with the next look. */
  async look(signal: AbortSignal): Promise<void> {
    const gateways = this.#with.pods.list().flatMap(gatewayOf);
    if (gateways.length === 0) return;
    try {
      const suspects = new Set<Gateway>();
      await this.#visit(gateways, (gateway) => void suspects.add(gateway));
      if (suspects.size === 0) return;
      const destinations = await this.#destinationsOf(suspects, signal);
      const translated = new Map<Gateway, Map<string, TranslatedSource>>();
      await this.#visit([...suspects], (gateway, source) => {
        const prefixes = destinations.get(nameText(gateway.egress)) ?? [];
        if (!prefixes.some((each) => each.contains(source.destination))) return;
        const sources = translated.get(gateway) ?? new Map();
        const key = `${source.source} ${source.seenAs}`;
        if (sources.size < MAX_TRANSLATED) sources.set(key, source);
        translated.set(gateway, sources);
      });
      for (const [gateway, sources] of translated) {
        await this.#report(gateway, [...sources.values()], signal);
      }
    } catch (err) {
      if (signal.aborted || !isExpected(err)) throw err;
      if (this.#failures.passes(err)) {
        log.warn(
          "Cannot see whether the node translates gateways' sources; retrying",
          { err },
        );
      }
    }
  }

  /** Shows the translated connections that gateways opened. */
  async #visit(
    gateways: readonly Gateway[],
    visitor: (gateway: Gateway, source: TranslatedSource) => void,
  ): Promise<void> {
    const byAddress = new Map(
      gateways.flatMap((gateway) =>
        gateway.addresses.map((each) => [each.toString(), gateway] as const)
      ),
    );
    const { port } = this.#with;
    await using conntrack = this.#open();
    for (const filter of filtersOf(gateways)) {
      await conntrack.visit((flow) => {
        if (!isTranslated(flow) || isTunnel(flow, port)) return;
        const { originalSource: source, replyDestination: seenAs } = flow;
        const gateway = byAddress.get(source.toString());
        if (gateway === undefined || seenAs.equals(source)) return;
        const destination = flow.originalDestination;
        visitor(gateway, { source, seenAs, destination });
      }, filter);
    }
  }

  /** By the Egress' name; none of one that does not exist. */
  async #destinationsOf(
    gateways: Iterable<Gateway>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, readonly Prefix[]>> {
    const found = new Map<string, readonly Prefix[]>();
    for (const { egress } of gateways) {
      if (found.has(nameText(egress))) continue;
      const object = await this.#with.client.tryGet(EGRESSES, {
        ...egress,
        timeoutMs: GET_MS,
        signal,
      });
      const { prefixes } = parseDestinations(object?.spec.destinations ?? []);
      found.set(nameText(egress), prefixes);
    }
    return found;
  }

  async #report(
    { egress, addresses: [address] }: Gateway,
    translated: readonly TranslatedSource[],
    signal: AbortSignal,
  ): Promise<void> {
    if (address === undefined) return;
    for (const { source, seenAs, destination } of translated) {
      if (!this.#found.passes(`${source} ${seenAs}`)) continue;
      log.warn("The node translates the source of a gateway's packets", {
        egress: nameText(egress),
        gateway: source.toString(),
        seenAs: seenAs.toString(),
        destination: destination.toString(),
      });
    }
    const target = { egress, address };
    const { result, reason } = await this.#with.announcer.reportSources(
      target,
      { translated, signal },
    );
    if (result === "accepted") return;
    log.debug("Cannot report translated sources to a gateway; retrying", {
      egress: nameText(egress),
      gateway: address.toString(),
      result,
      reason,
    });
  }
}

function gatewayOf(pod: V1Pod): Gateway[] {
  const egress = gatewayEgress(pod);
  const addresses = podAddresses(pod);
  return egress === undefined || addresses.length === 0 || !hasOwnNetwork(pod)
    ? []
    : [{ egress, addresses }];
}

/** Where the destination is translated too, a Service was asked: no packet of a client, whose Services are inside. */
function isTranslated({ status }: ConntrackFlow): boolean {
  const { srcNat, dstNat } = CONNTRACK_STATUS;
  return (status & (srcNat | dstNat)) === srcNat;
}

/** Whether it is a tunnel to a client. */
function isTunnel(
  { protocol, originalDestinationPort }: ConntrackFlow,
  port: number,
): boolean {
  return protocol === UDP && originalDestinationPort === port;
}

/** Which connections the kernel is to show. It can pick only those of IPv4. */
function filtersOf(gateways: readonly Gateway[]): ConntrackFilter[] {
  const addresses = gateways.flatMap((gateway) => gateway.addresses);
  return FAMILIES.flatMap((family): ConntrackFilter[] => {
    const own = addresses.filter((address) => address.family === family);
    if (own.length === 0) return [];
    if (family === "ipv6" || own.length > MAX_FILTERED) return [{ family }];
    return own.map((address) => ({ end: { address, role: "opens" } }));
  });
}

function isExpected(err: unknown): boolean {
  return err instanceof NetlinkError || err instanceof LinuxError ||
    isUnanswered(err);
}
