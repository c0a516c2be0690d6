import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import { type KubeClient, LEASES } from "../../../lib/kube/mod.ts";
import { EGRESS_LEASE } from "../../../lib/names/mod.ts";

/** How old an answer may be. */
const FRESH_MS = 5_000;

/** A lease that is held is renewed every few seconds, and is free after 15 s without. */
const AWAY_MS = 16_000;

/** After that the answer is too late for an announcement. */
const TIMEOUT_MS = 2_000;

/** Whether coil-controller, which says who the clients are, is at work: by its lease. */
export class ControllerLease {
  readonly #client: Pick<KubeClient, "tryGet">;
  readonly #namespace: string;
  readonly #clock: Clock;
  /** What was read last, and when first. */
  #read: { readonly renewed: string; readonly sinceMs: number } | undefined;
  #answer: Promise<boolean> | undefined;
  #answerMs = -Infinity;

  constructor(
    client: Pick<KubeClient, "tryGet">,
    { namespace, clock = systemClock }: {
      readonly namespace: string;
      readonly clock?: Clock;
    },
  ) {
    this.#client = client;
    this.#namespace = namespace;
    this.#clock = clock;
  }

  /**
   * Whether the lease has no holder, or was not renewed in the 16 s since it was
   * first read here: clocks of machines differ, so its times say nothing.
   *
   * @throws {Error} when the API server does not answer
   */
  isAway(): Promise<boolean> {
    const nowMs = this.#clock.nowMs();
    if (this.#answer === undefined || nowMs - this.#answerMs > FRESH_MS) {
      this.#answerMs = nowMs;
      this.#answer = this.#look();
      this.#answer.catch(() => this.#answer = undefined);
    }
    return this.#answer;
  }

  async #look(): Promise<boolean> {
    const lease = await this.#client.tryGet(LEASES, {
      namespace: this.#namespace,
      name: EGRESS_LEASE,
      timeoutMs: TIMEOUT_MS,
    });
    const { holderIdentity, renewTime } = lease?.spec ?? {};
    if (!holderIdentity || renewTime === undefined) return true;
    const renewed = String(renewTime);
    const nowMs = this.#clock.nowMs();
    if (this.#read?.renewed !== renewed) {
      this.#read = { renewed, sinceMs: nowMs };
    }
    return nowMs - this.#read.sinceMs > AWAY_MS;
  }
}
