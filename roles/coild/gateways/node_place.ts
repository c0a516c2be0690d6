import {
  abortable,
  type Clock,
  SingleFlight,
  systemClock,
} from "../../../lib/async/mod.ts";
import type { EgressFacts, Place } from "../../../lib/egress/mod.ts";
import { type KubeClient, NODES } from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("egress");

/** Well-known label of a Node (Kubernetes' labels, annotations and taints): the failure zone it is in. */
const ZONE_LABEL = "topology.kubernetes.io/zone";

/** A Node without a zone may still get one, and an API server that is away comes back. */
const AGAIN_MS = 60_000;
const GET_MS = 5_000;

export interface NodePlaceOptions {
  /** The Node's name. */
  readonly node: string;
  readonly clock?: Clock | undefined;
}

/**
 * Where this node is. A Node's zone does not change, so it is read once, and
 * only where an endpoint of an Egress is meant for certain zones.
 */
export class NodePlace {
  readonly #client: Pick<KubeClient, "tryGet">;
  readonly #node: string;
  readonly #clock: Clock;
  readonly #reads = new SingleFlight<void>();
  #zone: string | undefined;
  #nextMs = -Infinity;

  constructor(
    client: Pick<KubeClient, "tryGet">,
    { node, clock = systemClock }: NodePlaceOptions,
  ) {
    this.#client = client;
    this.#node = node;
    this.#clock = clock;
  }

  /** As far as it matters for these Egresses. Does not throw for an API server that is away: no zone is preferred then. */
  async for(
    facts: Iterable<EgressFacts>,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<Place> {
    if (this.#zone === undefined && hasZones(facts)) {
      // Of all pods that come at once: without the zone, one would choose from all gateways until something changes.
      await abortable(this.#reads.do("", () => this.#read()), signal);
    }
    return { node: this.#node, zone: this.#zone };
  }

  async #read(): Promise<void> {
    const nowMs = this.#clock.nowMs();
    if (nowMs < this.#nextMs) return;
    this.#nextMs = nowMs + AGAIN_MS;
    try {
      const node = await this.#client.tryGet(NODES, {
        name: this.#node,
        timeoutMs: GET_MS,
      });
      this.#zone = node?.metadata?.labels?.[ZONE_LABEL];
    } catch (err) {
      log.warn("Cannot read this node's zone; gateways of all zones are used", {
        err,
      });
    }
  }
}

function hasZones(facts: Iterable<EgressFacts>): boolean {
  return [...facts].some(({ egress, slices }) =>
    egress?.spec.gatewaySelection === "Direct" &&
    slices.some(({ endpoints }) =>
      endpoints?.some(({ hints }) => (hints?.forZones?.length ?? 0) > 0)
    )
  );
}
