import type {
  AnnounceClient,
  AnnounceTarget,
} from "../../../lib/announce/mod.ts";
import {
  type Clock,
  Gate,
  sleep,
  systemClock,
} from "../../../lib/async/mod.ts";
import type { GatewayGroup } from "../../../lib/egress/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { splitKey } from "../../../lib/kube/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { GatewayMetrics } from "../observe/gateway_metrics.ts";
import type { Loss } from "./losses.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

const log = getLogger("egress");

/** Between a change and the report of it: all nodes lose a gateway at the same time, and connections have to be ended first. */
const SPREAD = { leastMs: 1_000, mostMs: 5_000 };
/** While gateways are lost. Those that get the reports forget a node after three minutes. */
const REPEAT = { leastMs: 40_000, mostMs: 80_000 };

export interface LossReporterOptions {
  readonly client: Pick<AnnounceClient, "report">;
  /** The gateways that clients choose from. */
  readonly groups: () => readonly GatewayGroup[];
  /** Gateways that answer, as text, in sets: those of the first are asked first. */
  readonly answering: () => readonly ReadonlySet<string>[];
  readonly losses: () => readonly Loss[];
  /** Gateways that work and of which many probes are lost, as text. */
  readonly suspects: () => ReadonlySet<string>;
  readonly metrics: Pick<GatewayMetrics, "reported">;
  readonly clock?: Clock | undefined;
  /** In [0, 1). */
  readonly random?: () => number;
}

/**
 * Reports lost gateways to one of their Egress that answers, and looks again for
 * one while none does. That one writes it into the status of the Egress, for all
 * nodes together. No node calls the API server.
 */
export class LossReporter {
  readonly #with: LossReporterOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  #changed = new Gate();
  /** Where each Egress' losses were reported last, as long as there are any. */
  readonly #reported = new Map<string, Address>();
  /** Egresses whose last report failed. */
  readonly #failing = new Set<string>();

  constructor(options: LossReporterOptions) {
    this.#with = options;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
  }

  /** Asks for a report: a gateway is lost or is no longer, or one that is lost has clients now. */
  trigger(): void {
    this.#changed.open();
  }

  /** Reports until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      if (this.#isCalm) {
        await this.#changed.wait({ signal });
      } else {
        const waitMs = this.#within(REPEAT);
        await this.#changed.waitAtMost(waitMs, { signal, clock: this.#clock });
      }
      await sleep(this.#within(SPREAD), { signal, clock: this.#clock });
      this.#changed = new Gate();
      await this.#reportAll(signal);
    }
  }

  /** Whether there is nothing to say, and nothing was said that may be over. */
  get #isCalm(): boolean {
    const { groups, suspects } = this.#with;
    // Gateways that were lost before the start may have no clients yet, or no longer.
    const lost = this.#lostAmong(groups().flatMap(({ gateways }) => gateways));
    return this.#reported.size + lost.length + suspects().size === 0;
  }

  #lostAmong(gateways: readonly Address[]): Loss[] {
    const keys = new Set(gateways.map(String));
    return this.#with.losses()
      .filter(({ gateway }) => keys.has(gateway.toString()));
  }

  #within({ leastMs, mostMs }: typeof SPREAD): number {
    return leastMs + (mostMs - leastMs) * this.#random();
  }

  async #reportAll(signal: AbortSignal): Promise<void> {
    const byName = Map.groupBy(this.#with.groups(), ({ name }) => name);
    for (const name of this.#reported.keys()) {
      if (!byName.has(name)) this.#reported.delete(name);
    }
    for (const name of this.#failing) {
      // mutate: only frees memory.
      if (!byName.has(name)) this.#failing.delete(name);
    }
    const suspected = this.#with.suspects();
    for (const [name, groups] of byName) {
      const all = groups.flatMap(({ gateways }) => gateways);
      const lost = this.#lostAmong(all);
      const address = this.#targetOf(name, all, suspected);
      if (address === undefined) continue;
      const suspects = all.filter((each) =>
        suspected.has(each.toString()) && !each.equals(address)
      );
      const isCalm = lost.length + suspects.length === 0;
      if (isCalm && !this.#reported.has(name)) continue;
      await this.#report(name, { address, lost, suspects, signal });
    }
  }

  async #report(
    name: string,
    { address, lost, suspects, signal }: {
      readonly address: Address;
      readonly lost: readonly Loss[];
      readonly suspects: readonly Address[];
      readonly signal: AbortSignal;
    },
  ): Promise<void> {
    const nowMs = this.#clock.nowMs();
    const target: AnnounceTarget = { egress: egressOf(name), address };
    const { result, reason } = await this.#with.client.report(target, {
      losses: lost.map(({ gateway, sinceMs, ended }) => ({
        gateway,
        seconds: Math.round((nowMs - sinceMs) / 1_000),
        ended,
      })),
      suspects,
      signal,
    });
    // What was not taken is said again, and forgotten by who has it otherwise.
    if (lost.length + suspects.length === 0) this.#reported.delete(name);
    else this.#reported.set(name, address);
    this.#with.metrics.reported(result);
    if (result === "accepted") {
      this.#failing.delete(name);
      return;
    }
    const level = this.#failing.has(name) ? "debug" : "warn";
    this.#failing.add(name);
    log[level]("Cannot report lost gateways of an Egress; retrying", {
      egress: name,
      gateway: address.toString(),
      result,
      reason,
    });
  }

  /**
   * The same as before if it answers as well as others: several would count the node several times. One that is
   * suspect only where no other answers as well, since none is believed about itself.
   */
  #targetOf(
    name: string,
    all: readonly Address[],
    suspected: ReadonlySet<string>,
  ): Address | undefined {
    const choices = this.#with.answering().flatMap((answering) => {
      const usable = all.filter((each) => answering.has(each.toString()));
      return [
        usable.filter((each) => !suspected.has(each.toString())),
        usable,
      ];
    });
    const choice = choices.find(({ length }) => length > 0) ?? [];
    const reported = this.#reported.get(name)?.toString();
    return choice.find((each) => each.toString() === reported) ??
      choice[Math.floor(this.#random() * choice.length)];
  }
}

function egressOf(name: string): NamespacedName {
  const { namespace = "", name: own } = splitKey(name);
  return { namespace, name: own };
}
