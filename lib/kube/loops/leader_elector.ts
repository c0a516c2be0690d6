import { getLogger, type Logger } from "../../telemetry/mod.ts";
import type { KubeClient } from "../client/client.ts";
import { type LeaseClaim, LeaseKeeper } from "./lease.ts";
import type { KubeMetrics } from "./metrics.ts";
import { type Clock, onAbort, sleep, systemClock } from "../../async/mod.ts";

/** Of each request; four at most, less than half of the 30 s that a pod has to end. */
const RELEASE_TIMEOUT_MS = 3_000;

/** A leader that ends is followed this soon; each attempt is one GET. */
const WAIT_MS = 500;

/** Options of a {@link LeaderElector}; the times are controller-runtime's by default. */
export interface LeaderElectorOptions {
  /** Where the Lease is. */
  readonly namespace: string;
  readonly name: string;
  /** Who we are; unique among all that take part, also after a restart. */
  readonly identity: string;
  /** How long others wait after our last renewal. Default 15 s. */
  readonly leaseMs?: number;
  /** We stop leading when no renewal succeeded for so long. Less than `leaseMs`. Default 10 s. */
  readonly renewMs?: number;
  /** Time between renewals. Default 2 s. */
  readonly retryMs?: number;
  readonly clock?: Clock;
  readonly metrics?: KubeMetrics | undefined;
}

/**
 * Lets one of several processes lead, by a Lease.
 *
 * Only monotonic time counts, so a jump of a clock neither steals nor loses the lease. The leader's
 * signal aborts as soon as it can no longer be sure to lead, `leaseMs - renewMs` before another process can begin.
 */
export class LeaderElector {
  readonly #client: KubeClient;
  readonly #claim: LeaseClaim;
  readonly #renewMs: number;
  readonly #retryMs: number;
  readonly #waitMs: number;
  readonly #clock: Clock;
  readonly #metrics: KubeMetrics | undefined;
  readonly #log: Logger = getLogger("leader-election");
  #isLeader = false;

  /** @throws {RangeError} when the times do not fit together. */
  constructor(client: KubeClient, options: LeaderElectorOptions) {
    const { namespace, name, identity } = options;
    const { leaseMs = 15_000, renewMs = 10_000, retryMs = 2_000 } = options;
    if (!(leaseMs > renewMs && renewMs > retryMs)) {
      throw new RangeError(
        `Cannot elect a leader: not leaseMs ${leaseMs} > renewMs ${renewMs} > retryMs ${retryMs}`,
      );
    }
    this.#client = client;
    this.#claim = { namespace, name, identity, leaseMs };
    this.#renewMs = renewMs;
    this.#retryMs = retryMs;
    this.#waitMs = Math.min(WAIT_MS, retryMs);
    this.#clock = options.clock ?? systemClock;
    this.#metrics = options.metrics;
    this.#setLeader(false);
  }

  /** Whether we lead. */
  get isLeader(): boolean {
    return this.#isLeader;
  }

  /**
   * Waits for the lease and calls `lead` while we have it, again and again, until the signal aborts.
   *
   * `lead`'s signal aborts with the outer one or when the lease is lost; it must end then, and before others begin.
   * When `lead` returns by itself the lease is released and `run` returns. Failures of the API server do not end it.
   *
   * @throws what `lead` throws, unless the signal has aborted
   */
  async run(
    signal: AbortSignal,
    lead: (signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const keeper = new LeaseKeeper(this.#client, {
      claim: this.#claim,
      nowMs: () => this.#clock.nowMs(),
    });
    try {
      while (!signal.aborted) {
        await this.#acquire(keeper, signal);
        if (await this.#leadOnce(keeper, { signal, lead })) return;
      }
    } catch (err) {
      if (!signal.aborted) throw err;
      // A claim that was aborted on its way may have been accepted.
      await this.#release(keeper);
    }
  }

  async #acquire(keeper: LeaseKeeper, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        if (await this.#try(keeper, signal)) return;
      } catch (err) {
        signal.throwIfAborted();
        this.#log.info("Cannot get the lease", {
          lease: this.#claim.name,
          err,
        });
      }
      // Some are faster than others, so that not all come at once.
      const ms = this.#waitMs * (1 + 0.2 * Math.random());
      const { leftMs } = keeper;
      await sleep(leftMs > 0 ? Math.min(ms, leftMs) : ms, {
        signal,
        clock: this.#clock,
      });
    }
  }

  /** True when `lead` ended by itself, false when the lease was lost. */
  async #leadOnce(
    keeper: LeaseKeeper,
    options: {
      signal: AbortSignal;
      lead: (signal: AbortSignal) => Promise<void>;
    },
  ): Promise<boolean> {
    const { signal, lead } = options;
    const leading = new AbortController();
    using _listening = onAbort(signal, () => leading.abort(signal.reason));
    this.#log.info("Became the leader", { lease: this.#claim.name });
    this.#setLeader(true);
    const renewing = new AbortController();
    const renewed = this.#renew(keeper, { leading, signal: renewing.signal });
    try {
      await lead(leading.signal);
      return !leading.signal.aborted;
    } catch (err) {
      if (!leading.signal.aborted) throw err;
      return false;
    } finally {
      // Renewed to the last moment, for lead() may have taken long to end.
      renewing.abort();
      await renewed;
      this.#setLeader(false);
      await this.#release(keeper);
    }
  }

  /** Renews until its signal aborts; aborts `leading` when no renewal has succeeded for too long. */
  async #renew(
    keeper: LeaseKeeper,
    options: { leading: AbortController; signal: AbortSignal },
  ): Promise<void> {
    const { leading, signal } = options;
    let isLost = false;
    const lose = () => {
      isLost = true;
      if (leading.signal.aborted) return;
      this.#log.warn("Lost the lease", { lease: this.#claim.name });
      leading.abort(new Error(`Cannot renew lease "${this.#claim.name}"`));
    };
    while (!signal.aborted && !isLost) {
      // By a timer, since a request may hang beyond the moment.
      const leftMs = keeper.renewedMs + this.#renewMs - this.#clock.nowMs();
      using _deadline = this.#clock.after(Math.max(0, leftMs), lose);
      try {
        await sleep(this.#retryMs, { signal, clock: this.#clock });
        if (!await this.#try(keeper, signal)) lose();
      } catch (err) {
        if (signal.aborted) return;
        this.#log.info("Cannot renew the lease", {
          lease: this.#claim.name,
          err,
        });
      }
    }
  }

  async #try(keeper: LeaseKeeper, signal: AbortSignal): Promise<boolean> {
    return await keeper.acquire({ signal, timeoutMs: this.#renewMs / 2 });
  }

  async #release(keeper: LeaseKeeper): Promise<void> {
    try {
      await keeper.release({ timeoutMs: RELEASE_TIMEOUT_MS });
    } catch (err) {
      // It expires by itself.
      this.#log.info("Cannot release the lease", {
        lease: this.#claim.name,
        err,
      });
    }
  }

  #setLeader(value: boolean): void {
    this.#isLeader = value;
    this.#metrics?.leader.set({ name: this.#claim.name }, value ? 1 : 0);
  }
}
