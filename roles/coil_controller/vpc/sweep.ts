import {
  abortable,
  type Clock,
  jittered,
  sleep,
  systemClock,
} from "../../../lib/async/mod.ts";
import {
  AwsError,
  type Ec2Client,
  type NetworkInterface,
} from "../../../lib/aws/mod.ts";
import {
  ENI_CLUSTER_TAG,
  ENI_INSTANCE_TAG,
  ENI_UNMANAGED_TAG,
} from "../../../lib/names/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import { LooseEnis } from "./loose_enis.ts";
import type { SweepMetrics } from "./metrics.ts";

const log = getLogger("vpc-sweep");

/** Looks, about, in the time for which an ENI must have had no instance. */
const LOOKS = 4;

type Ec2 = Pick<
  Ec2Client,
  "describeNetworkInterfaces" | "deleteNetworkInterface"
>;

export interface SweepOptions {
  /** Only ENIs with this tag are looked at. */
  readonly cluster: string;
  /** For how long an ENI must have been seen without an instance. */
  readonly afterMs: number;
  readonly metrics: SweepMetrics;
  /** Finds EC2. */
  readonly open: (signal: AbortSignal) => Promise<Ec2>;
  readonly clock?: Clock | undefined;
}

/** Deletes ENIs that coild made and that no instance has had for a while: their nodes ended before coild could. */
export class VpcSweep {
  readonly #options: SweepOptions;
  readonly #clock: Clock;
  readonly #loose: LooseEnis;
  readonly #failures = new RepeatFilter();

  constructor(options: SweepOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#loose = new LooseEnis(options);
  }

  /** Sweeps until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { afterMs, cluster, metrics } = this.#options;
    log.info("Deleting detached ENIs of deleted nodes", { cluster, afterMs });
    try {
      for (;;) {
        await this.#sweep(signal).catch((error) => this.#note(error, signal));
        const waitMs = jittered(afterMs / LOOKS);
        await sleep(waitMs, { signal, clock: this.#clock });
      }
    } finally {
      // Another process leads now, and looks.
      metrics.loose.reset();
    }
  }

  async #sweep(signal: AbortSignal): Promise<void> {
    const { cluster, metrics, open } = this.#options;
    const ec2 = await open(signal);
    const nowMs = this.#clock.nowMs();
    const list = await ec2.describeNetworkInterfaces({
      [`tag:${ENI_CLUSTER_TAG}`]: [cluster],
      "tag-key": [ENI_INSTANCE_TAG],
      "status": ["available"],
    }, { signal });
    const loose = list.filter((eni) => isLoose(eni, cluster));
    metrics.loose.set({ cluster }, loose.length);
    const ids = loose.map(({ networkInterfaceId }) => networkInterfaceId);
    const due = new Set(this.#loose.look(ids, nowMs));
    for (const eni of loose) {
      if (!due.has(eni.networkInterfaceId)) continue;
      await this.#delete(eni, { ec2, signal }).catch((error) => {
        if (!isOfOne(error)) throw error;
        this.#note(error, signal);
      });
    }
  }

  async #delete(
    eni: NetworkInterface,
    { ec2, signal }: { readonly ec2: Ec2; readonly signal: AbortSignal },
  ): Promise<void> {
    const { networkInterfaceId: id, subnetId: subnet, tags } = eni;
    try {
      // The lease is not kept for an answer.
      await abortable(ec2.deleteNetworkInterface(id, { signal }), signal);
    } catch (error) {
      // By its node, at the last moment.
      if (error instanceof AwsError && error.isNotFound) return;
      throw error;
    }
    this.#options.metrics.deleted.inc();
    const instance = tags[ENI_INSTANCE_TAG];
    log.info("Deleted a detached ENI", { id, subnet, instance });
  }

  /** What fails is tried again at the next look. */
  #note(err: unknown, signal: AbortSignal): void {
    signal.throwIfAborted();
    this.#options.metrics.errors.inc();
    if (!this.#failures.passes(err)) return;
    log.error("Cannot delete detached ENIs; retrying", { err });
  }
}

/** Whether other ENIs can be deleted all the same. */
function isOfOne(error: unknown): boolean {
  return error instanceof AwsError &&
    !error.isDenied && !error.isThrottled && !error.hasBadKeys;
}

/** Whether coild made it for this cluster, no instance has it, and no operator keeps it. */
function isLoose(eni: NetworkInterface, cluster: string): boolean {
  const { attachment, status, tags } = eni;
  return status === "available" && attachment === undefined &&
    tags[ENI_CLUSTER_TAG] === cluster && tags[ENI_INSTANCE_TAG] !== undefined &&
    tags[ENI_UNMANAGED_TAG] !== "true";
}
