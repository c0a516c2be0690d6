import {
  abortable,
  type Clock,
  jittered,
  SingleFlight,
  systemClock,
  type WaitOptions,
  withTimeout,
} from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import type { Credentials } from "../base/sign.ts";

const log = getLogger("aws");

/** A renewal ends after this time, however many wait for it. */
const RENEWAL_MS = 30_000;
/** Keys are renewed so long before they end: AWS gives new ones of a role five minutes before. */
const EARLY_MS = 240_000;
/** How long after a failed renewal the next one is, while keys are still good. */
const AGAIN_MS = 30_000;

/** Keys, and for how long AWS takes them. */
export interface IssuedCredentials {
  readonly credentials: Credentials;
  /** From now on; undefined when they do not end. */
  readonly lifetimeMs: number | undefined;
}

/** Gets new keys. @throws {CredentialsError} */
export type Issuer = (
  options: { readonly signal: AbortSignal },
) => Promise<IssuedCredentials>;

interface Held {
  readonly credentials: Credentials;
  /** Not before this moment are they renewed. */
  renewMs: number;
  readonly endMs: number;
}

/** The keys to sign with, renewed before they end, once for all who want them. */
export class CredentialSource {
  readonly #issue: Issuer;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #renewal = new SingleFlight<Credentials>();
  #held: Held | undefined;

  constructor(
    issue: Issuer,
    { clock = systemClock, random = Math.random }: {
      readonly clock?: Clock | undefined;
      readonly random?: (() => number) | undefined;
    } = {},
  ) {
    this.#issue = issue;
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * The keys that are good now.
   *
   * @throws {CredentialsError} when there are none
   */
  async current({ signal }: WaitOptions = {}): Promise<Credentials> {
    signal?.throwIfAborted();
    const nowMs = this.#clock.nowMs();
    if (this.#held !== undefined && nowMs < this.#held.renewMs) {
      return this.#held.credentials;
    }
    // The renewal goes on for the others when one of them no longer waits.
    const renewed = this.#renewal.do("", () => this.#renew());
    return await abortable(renewed, signal);
  }

  /** AWS does not take these keys: the next call gets others. False when there are no others. */
  expire(credentials: Credentials): boolean {
    // Another call may have had them renewed since.
    if (this.#held?.credentials !== credentials) return true;
    if (this.#held.endMs === Infinity) return false;
    this.#held = undefined;
    return true;
  }

  async #renew(): Promise<Credentials> {
    const clock = this.#clock;
    try {
      const { credentials, lifetimeMs = Infinity } = await withTimeout(
        RENEWAL_MS,
        (signal) => this.#issue({ signal }),
        { clock },
      );
      const nowMs = clock.nowMs();
      this.#held = {
        credentials,
        renewMs: nowMs + Math.max(
          lifetimeMs / 2,
          lifetimeMs - jittered(EARLY_MS, this.#random),
        ),
        endMs: nowMs + lifetimeMs,
      };
      return credentials;
    } catch (error) {
      const held = this.#held;
      const nowMs = clock.nowMs();
      if (held === undefined || nowMs >= held.endMs) throw error;
      held.renewMs = nowMs + jittered(AGAIN_MS, this.#random);
      log.warn(
        "Cannot renew the AWS credentials; the current ones are still valid",
        {
          leftMs: Math.round(held.endMs - nowMs),
          err: error,
        },
      );
      return held.credentials;
    }
  }
}
