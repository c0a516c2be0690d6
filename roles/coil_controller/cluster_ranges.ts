import type { Pool } from "../../lib/api/mod.ts";
import { retry, sleep } from "../../lib/async/mod.ts";
import { Address, Prefix, valuesOf } from "../../lib/inet/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  NODES,
  SERVICE_CIDRS,
} from "../../lib/kube/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";

const log = getLogger("cluster-ranges");

const PAGE_SIZE = 500;
/** As many are named in a message. */
const MAX_NAMED = 3;

/** Addresses that the cluster uses otherwise than for pods of Coil's. */
export interface ClusterRange {
  readonly prefix: Prefix;
  /** What they are, for example `the address of Node "a"`. */
  readonly what: string;
}

/** Says which addresses of the pool the cluster uses for something else; undefined when none. */
export function clusterOverlap(
  { subnets }: Pick<Pool, "subnets">,
  ranges: readonly ClusterRange[],
): string | undefined {
  const own = subnets.flatMap((subnet) => valuesOf(subnet));
  const found = ranges
    .filter(({ prefix }) => own.some((subnet) => subnet.overlaps(prefix)))
    .map(({ prefix, what }) => `${prefix} is ${what}`);
  if (found.length === 0) return undefined;
  const rest = found.length - MAX_NAMED;
  const named = [
    ...found.slice(0, MAX_NAMED),
    ...(rest > 0 ? [`${rest} more`] : []),
  ].join("; ");
  return `${named}. A pod with such an address cannot be reached, or takes the traffic of what has it; ` +
    "move the pods to a pool with addresses of its own";
}

/** Options of {@linkcode ClusterRanges}. */
export interface ClusterRangesOptions {
  readonly client: Pick<KubeClient, "listAll" | "list">;
  readonly intervalMs: number;
  /** The ranges are others than before. */
  readonly onChanged: () => void;
}

/**
 * Reads the addresses of Nodes, their podCIDRs and the ServiceCIDRs, at the
 * start and at an interval. The watch on Nodes has metadata alone, and these
 * fields hardly ever change.
 */
export class ClusterRanges {
  readonly #options: ClusterRangesOptions;
  #ranges: readonly ClusterRange[] = [];
  /** Findings by the pool's subnets: there may be thousands of ranges, and a pool's status is computed often. */
  readonly #found = new Map<string, string | undefined>();

  constructor(options: ClusterRangesOptions) {
    this.#options = options;
  }

  /** What the cluster uses of the pool, if anything. */
  overlap(pool: Pick<Pool, "subnets">): string | undefined {
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
      await sleep(this.#options.intervalMs, { signal });
    }
  }

  async #read(signal: AbortSignal): Promise<ClusterRange[]> {
    const ranges = await this.#serviceRanges(signal);
    let next: string | undefined;
    do {
      const page = await this.#options.client.list(NODES, {
        limit: PAGE_SIZE,
        continue: next,
        signal,
      });
      for (const { metadata, spec, status } of page.items) {
        const name = metadata?.name ?? "";
        for (const { type, address } of status?.addresses ?? []) {
          if (type !== "InternalIP" && type !== "ExternalIP") continue;
          const what = `the address of Node "${name}"`;
          ranges.push(...rangeOf(hostPrefix(address), what));
        }
        for (const cidr of spec?.podCIDRs ?? []) {
          const what =
            `the podCIDR of Node "${name}", which another network plugin may give to pods (without one, ` +
            "switch it off: kube-controller-manager --allocate-node-cidrs=false)";
          ranges.push(...rangeOf(cidr, what));
        }
      }
      next = page.continue;
    } while (next !== undefined);
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

function hostPrefix(address: string): string {
  return `${address}/${address.includes(":") ? 128 : 32}`;
}

function rangeOf(cidr: string, what: string): ClusterRange[] {
  const [address = "", length = ""] = cidr.split("/");
  if (Address.tryParse(address) === undefined || length === "") return [];
  return [{ prefix: Prefix.parse(cidr), what }];
}

function textOf(ranges: readonly ClusterRange[]): string {
  return ranges.map(({ prefix, what }) => `${prefix} ${what}`).sort().join(
    "\n",
  );
}
