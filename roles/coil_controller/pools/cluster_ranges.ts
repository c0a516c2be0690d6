import {
  type ClusterUse,
  type Pool,
  REASON_ADDRESSES_IN_USE,
  REASON_IN_POD_CIDR,
} from "../../../lib/api/mod.ts";
import { Gate, jittered, retry, sleep } from "../../../lib/async/mod.ts";
import { Address, Prefix, valuesOf } from "../../../lib/inet/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  SERVICE_CIDRS,
  type Store,
  type V1Node,
} from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("cluster-ranges");

/** Nodes that are read before others have their turn: a few ms. */
const NODES_AT_ONCE = 100;
/** The most that are named in a message. */
const MAX_NAMED = 3;

/** Addresses that the cluster uses otherwise than for pods of Coil's. */
export interface ClusterRange {
  readonly prefix: Prefix;
  /** What they are, for example `the address of Node "a"`. */
  readonly what: string;
  /** Only another network plugin would use it. */
  readonly isPodCidr?: boolean;
}

/** Says which addresses of the pool the cluster uses for something else; undefined when none. */
export function clusterOverlap(
  { subnets }: Pick<Pool, "subnets">,
  ranges: readonly ClusterRange[],
): ClusterUse | undefined {
  const own = subnets.flatMap((subnet) => valuesOf(subnet));
  const found = ranges
    .filter(({ prefix }) => own.some((subnet) => subnet.overlaps(prefix)));
  const inUse = found.filter(({ isPodCidr }) => isPodCidr !== true);
  if (inUse.length > 0) {
    return {
      reason: REASON_ADDRESSES_IN_USE,
      message:
        `${
          namesOf(inUse)
        }. A pod with such an address cannot be reached, or receives the traffic of its other owner; ` +
        "move the pods to a pool with addresses of its own",
    };
  }
  if (found.length === 0) return undefined;
  return {
    reason: REASON_IN_POD_CIDR,
    message:
      `${
        namesOf(found)
      }. This is harmless if Coil is the only network plugin. If another one assigns addresses of ` +
      "podCIDRs, move Coil's pods to a pool outside of them",
  };
}

function namesOf(found: readonly ClusterRange[]): string {
  const names = found.slice(0, MAX_NAMED)
    .map(({ prefix, what }) => `${prefix} is ${what}`);
  const rest = found.length - MAX_NAMED;
  return [...names, ...(rest > 0 ? [`${rest} more`] : [])].join("; ");
}

export interface ClusterRangesOptions {
  readonly client: Pick<KubeClient, "listAll">;
  readonly nodes: Pick<Store<V1Node>, "list">;
  readonly intervalMs: number;
  /** The ranges have changed. */
  readonly onChanged: () => void;
}

/**
 * Knows the addresses of Nodes, their podCIDRs and the ServiceCIDRs, as they
 * were at the start or at the last interval: they hardly ever change. Nodes are
 * those of the cache, ServiceCIDRs are asked for.
 */
export class ClusterRanges {
  readonly #options: ClusterRangesOptions;
  readonly #known = new Gate();
  #ranges: readonly ClusterRange[] = [];
  /** Findings by the pool's subnets: there may be thousands of ranges, and a pool's status is computed often. */
  readonly #found = new Map<string, ClusterUse | undefined>();

  constructor(options: ClusterRangesOptions) {
    this.#options = options;
  }

  /** Resolves when they have been read once: what was said before of a pool may be right until then. Rejects only by the signal. */
  async known({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    await this.#known.wait({ signal });
  }

  /** What the cluster uses of the pool, if anything. */
  overlap(pool: Pick<Pool, "subnets">): ClusterUse | undefined {
    const key = pool.subnets.flatMap((subnet) => valuesOf(subnet)).join();
    if (!this.#found.has(key)) {
      this.#found.set(key, clusterOverlap(pool, this.#ranges));
    }
    return this.#found.get(key);
  }

  /** Reads now and then, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const ranges = await retry(() => this.#read(signal), { signal });
      const isSame = textOf(ranges) === textOf(this.#ranges);
      if (!isSame) {
        this.#ranges = ranges;
        this.#found.clear();
        this.#options.onChanged();
      }
      this.#known.open();
      await sleep(jittered(this.#options.intervalMs), { signal });
    }
  }

  async #read(signal: AbortSignal): Promise<ClusterRange[]> {
    const ranges = await this.#serviceRanges(signal);
    const nodes = this.#options.nodes.list();
    for (let i = 0; i < nodes.length; i += NODES_AT_ONCE) {
      for (const node of nodes.slice(i, i + NODES_AT_ONCE)) {
        ranges.push(...rangesOfNode(node));
      }
      // A new leader has requests to answer.
      await sleep(0, { signal });
    }
    return ranges;
  }

  /** ServiceCIDRs, where the API server has them (Kubernetes 1.33) and allows to read them. */
  async #serviceRanges(signal: AbortSignal): Promise<ClusterRange[]> {
    try {
      const { items } = await this.#options.client.listAll(SERVICE_CIDRS, {
        signal,
      });
      return items.flatMap(({ metadata, spec }) =>
        (spec?.cidrs ?? []).flatMap((cidr) =>
          rangeOf(cidr, `the ServiceCIDR "${metadata?.name}"`)
        )
      );
    } catch (error) {
      const isKnown = error instanceof KubeApiError &&
        (error.isNotFound || error.isForbidden);
      if (!isKnown) throw error;
      log.debug("Cannot read ServiceCIDRs", { err: error });
      return [];
    }
  }
}

function rangesOfNode({ metadata, spec, status }: V1Node): ClusterRange[] {
  const name = metadata?.name ?? "";
  const addresses = (status?.addresses ?? [])
    .filter(({ type }) => type === "InternalIP" || type === "ExternalIP")
    .flatMap(({ address }) =>
      rangeOf(hostPrefix(address), `the address of Node "${name}"`)
    );
  const podCidrs = (spec?.podCIDRs ?? [])
    .flatMap((cidr) => rangeOf(cidr, `the podCIDR of Node "${name}"`))
    .map((range) => ({ ...range, isPodCidr: true }));
  return [...addresses, ...podCidrs];
}

function hostPrefix(address: string): string {
  return `${address}/${address.includes(":") ? 128 : 32}`;
}

function rangeOf(cidr: string, what: string): ClusterRange[] {
  const [address = "", length = ""] = cidr.split("/");
  if (Address.tryParse(address) === undefined || length === "") return [];
  return [{ prefix: Prefix.parse(cidr), what }];
}

function textOf(ranges: readonly ClusterRange[]): string {
  return ranges.map(({ prefix, what }) => `${prefix} ${what}`).join("\n");
}
