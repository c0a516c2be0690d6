import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import type { EndedConnections, GatewayLoss } from "../../../lib/egress/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { GatewayMetrics } from "../observe/gateway_metrics.ts";

const log = getLogger("egress");

/** A gateway that this node has lost, and what was done. */
export interface Loss {
  readonly gateway: Address;
  /** By the clock of the process; of a loss before the start, when that was found. */
  readonly sinceMs: number;
  /** TCP connections through it that their programs saw aborted. */
  readonly ended: number;
}

interface KnownLoss extends Loss {
  /** Whether it began before the start: how long anything took is not known. */
  readonly isRecalled: boolean;
}

export interface LossesOptions {
  readonly metrics: Pick<GatewayMetrics, "ended" | "lost" | "switched">;
  /** Gateways that do not answer now, as text. */
  readonly lost: () => ReadonlySet<string>;
  readonly clock?: Clock | undefined;
}

/** Counts, logs and remembers what is done about gateways that are lost, until they answer again. */
export class Losses {
  readonly #with: LossesOptions;
  readonly #clock: Clock;
  readonly #losses = new Map<string, KnownLoss>();
  /** Whether it was said that the kernel cannot end connections. */
  #isIncapable = false;

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
    const isRecalled = silentMs === undefined;
    if (isRecalled) {
      log.warn("Lost an egress gateway before the start", {
        gateway: gateway.toString(),
      });
    } else {
      metrics.lost(silentMs);
      log.warn("Lost an egress gateway", {
        gateway: gateway.toString(),
        silentMs: Math.round(silentMs),
      });
    }
    for (const key of this.#losses.keys()) {
      // mutate: only frees memory.
      if (!lost().has(key)) this.#losses.delete(key);
    }
    this.#losses.set(gateway.toString(), {
      gateway,
      sinceMs: this.#clock.nowMs(),
      ended: 0,
      isRecalled,
    });
  }

  /** Takes note of a client that no longer uses lost gateways. */
  left(gateways: readonly Address[]): void {
    for (const gateway of gateways) {
      const loss = this.#losses.get(gateway.toString());
      if (loss === undefined || loss.isRecalled) continue;
      this.#with.metrics.switched(this.#clock.nowMs() - loss.sinceMs);
    }
  }

  /** Takes note of connections through gateways that were ended. */
  ended(done: EndedConnections, gateways: readonly Address[]): void {
    this.#with.metrics.ended(done);
    if (done.aborted === undefined && !this.#isIncapable) {
      log.warn(
        "Cannot end connections through lost gateways: the kernel lacks CONFIG_INET_DIAG or CONFIG_INET_DIAG_DESTROY; programs that wait for an answer go on waiting",
      );
      this.#isIncapable = true;
    }
    // Those through several gateways at once are counted together.
    const [loss] = gateways.flatMap((each) =>
      this.#losses.get(each.toString()) ?? []
    );
    if (loss === undefined) return;
    const ended = loss.ended + (done.aborted ?? 0);
    this.#losses.set(loss.gateway.toString(), { ...loss, ended });
  }
}
