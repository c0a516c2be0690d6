import type { Clock, Loops } from "../../../lib/async/mod.ts";
import type { Family } from "../../../lib/inet/mod.ts";
import type { Action, EniOutcome } from "../../../lib/vpc/mod.ts";
import type { NodeAccount } from "../cloud/account.ts";
import { MetadataSight } from "../cloud/sight.ts";
import type { CloudView } from "../cloud/view.ts";
import { Watcher } from "./watcher.ts";

/** Lists of EC2 cost the account; those of the metadata service cost little. */
const EC2_CALM_MS = 300_000;
const IMDS_CALM_MS = 30_000;
const EC2_SOON = { initialMs: 500, maxMs: 20_000 };
const IMDS_SOON = { initialMs: 100, maxMs: 2_000 };

/** ENIs without an instance are looked for so long after the start, for what an earlier process has begun. */
const START_MS = 15_000;

export interface CloudLooksOptions {
  readonly account: NodeAccount;
  /** Gets what is seen. */
  readonly view: CloudView;
  readonly families: readonly Family[];
  readonly clock: Clock;
  /** When this process began. */
  readonly startedAt: () => number;
  /** Called after each look. */
  readonly onLook: () => void;
}

/** Looks at EC2 and the metadata service: soon while something is awaited, else now and then. */
export class CloudLooks {
  readonly #options: CloudLooksOptions;
  readonly #sights: MetadataSight;
  readonly #atEc2: Watcher;
  readonly #atImds: Watcher;

  constructor(options: CloudLooksOptions) {
    const { account, view, families } = options;
    this.#options = options;
    this.#sights = new MetadataSight(account.imds, families);
    this.#atEc2 = new Watcher({
      // mutate: a word of a record.
      what: "EC2",
      look: (signal) => this.#lookAtEc2(signal),
      isAwaited: () => view.awaitsEc2,
      soon: EC2_SOON,
      calmMs: EC2_CALM_MS,
    });
    this.#atImds = new Watcher({
      // mutate: a word of a record.
      what: "the instance metadata service",
      look: (signal) => this.#lookAtImds(signal),
      isAwaited: () => view.awaitsMetadata,
      soon: IMDS_SOON,
      calmMs: IMDS_CALM_MS,
    });
  }

  get loops(): Loops {
    return {
      "looks at EC2": (signal) => this.#atEc2.run(signal),
      "looks at the instance metadata": (signal) => this.#atImds.run(signal),
    };
  }

  /** Asks for a look at EC2 that begins after this call. */
  askEc2(): void {
    this.#atEc2.ask();
  }

  /** Asks for looks that show what a call has done. */
  askAfter(action: Action, outcome: EniOutcome): void {
    this.#atImds.ask();
    const isSlow = ["attach", "detach"].includes(action.kind);
    if (isSlow || outcome.kind === "unknown") this.#atEc2.ask();
  }

  async #lookAtEc2(signal: AbortSignal): Promise<void> {
    const { account, clock, startedAt, view, onLook } = this.#options;
    const lookedAt = clock.nowMs();
    // What an earlier process has begun may come yet.
    const isNew = lookedAt < startedAt() + START_MS;
    const loose = isNew || view.mayHaveLoose;
    const enis = await account.list({ loose, signal });
    view.saw({ enis, lookedAt });
    // Others attach ENIs and assign addresses, too.
    if (view.awaitsMetadata) this.#atImds.ask();
    onLook();
  }

  async #lookAtImds(signal: AbortSignal): Promise<void> {
    const { view, onLook } = this.#options;
    const sight = await this.#sights.look({ signal });
    if (!sight.enis.some(({ device }) => device === 0)) {
      throw new Error(
        "Cannot use the instance metadata: it has no primary ENI",
      );
    }
    if (view.sawMetadata(sight)) this.#atEc2.ask();
    onLook();
  }
}
