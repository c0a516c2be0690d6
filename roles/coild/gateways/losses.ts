import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import type { EndedConnections, GatewayLoss } from "../../../lib/egress/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { GatewayMetrics } from "../observe/gateway_metrics.ts";

const log = getLogger("egress");

/** A gateway that this node has lost, and what was done. */
export interface Loss {
  readonly gateway: Address;
  /** By the clock of the process. */
  readonly sinceMs: number;
  /** Pods that no longer use it. */
  readonly clients: number;
  /** Connections through it that were ended. */
  readonly ended: number;
}

export interface LossesOptions {
  readonly metrics: Pick<GatewayMetrics, "ended" | "lost" | "switched">;
  /** Gateways that do not answer now, as text. */
  readonly lost: () => ReadonlySet<string>;
  readonly clock?: Clock;
}

/** Counts, logs and remembers what is done about gateways that are lost, until they answer again. */
export class Losses {
  readonly #with: LossesOptions;
  readonly #clock: Clock;
  readonly #losses = new Map<string, Loss>();

  constructor(options: LossesOptions) {
    this.#with = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** The gateways that are lost now. */
  get list(): readonly Loss[] {
    const lost = this.#with.lost();
    return [...this.#losses.values()]
      .filter(({ gateway }) => lost.has(gateway.toString()));
  }

  /** Takes note of a loss. */
  add({ gateway, silentMs }: GatewayLoss): void {
    const { metrics, lost } = this.#with;
    metrics.lost(silentMs);
    log.warn("Lost an egress gateway", {
      gateway: gateway.toString(),
      silentMs: Math.round(silentMs),
    });
    for (const key of this.#losses.keys()) {
      // mutate: only frees memory.
      if (!lost().has(key)) this.#losses.delete(key);
    }
    this.#losses.set(gateway.toString(), {
      gateway,
      sinceMs: this.#clock.nowMs(),
      clients: 0,
      ended: 0,
    });
  }

  /** Takes note of a client that no longer uses lost gateways. */
  left(gateways: readonly Address[]): void {
    for (const gateway of gateways) {
      const loss = this.#losses.get(gateway.toString());
      if (loss === undefined) continue;
      this.#with.metrics.switched(this.#clock.nowMs() - loss.sinceMs);
      this.#change(loss, { clients: loss.clients + 1 });
    }
  }

  /** Takes note of connections through gateways that were ended. */
  ended(done: EndedConnections, gateways: readonly Address[]): void {
    this.#with.metrics.ended(done);
    // Those through several gateways at once are counted together.
    const [loss] = gateways.flatMap((each) =>
      this.#losses.get(each.toString()) ?? []
    );
    if (loss === undefined) return;
    this.#change(loss, { ended: loss.ended + done.forgotten });
  }

  #change(loss: Loss, news: Partial<Loss>): void {
    this.#losses.set(loss.gateway.toString(), { ...loss, ...news });
  }
}
