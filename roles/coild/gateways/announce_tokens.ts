import {
  abortable,
  type Clock,
  jittered,
  SingleFlight,
  sleep,
  systemClock,
} from "../../../lib/async/mod.ts";
import type { AnnounceTokens } from "../../../lib/announce/mod.ts";
import {
  type KubeClient,
  SELF_SUBJECT_REVIEWS,
  TOKEN_REQUESTS,
} from "../../../lib/kube/mod.ts";
import {
  announceAudience,
  type NamespacedName,
  nameText,
} from "../../../lib/names/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";

const log = getLogger("egress");

/** Extras that the API server takes from a token that is bound to a pod. */
const POD_NAME_EXTRA = "authentication.kubernetes.io/pod-name";
const POD_UID_EXTRA = "authentication.kubernetes.io/pod-uid";

/** As long as the tokens that kubelets mount. */
const LIFE_SECONDS = 3_600;
/** The shortest life that the API server gives. */
const LEAST_LIFE_SECONDS = 600;
/** A token that expires so soon is no longer sent. */
const MARGIN_MS = 30_000;
const REQUEST_TIMEOUT_MS = 5_000;
/** After a failure or a time limit there is no new request for so long: one ADD waits for it, not each. */
const FAILED_MS = 10_000;
/** A gateway of another version refuses tokens however new they are. */
const LEAST_AGE_MS = 60_000;
const ROUND_MS = 30_000;
/** More Egresses than the pods of one node use. */
const MAX_HELD = 1_024;

export interface EgressTokensOptions {
  readonly client: Pick<KubeClient, "create">;
  /** For tests. */
  readonly clock?: Clock | undefined;
  /** In [0, 1); for tests. */
  readonly random?: () => number;
}

interface Held {
  readonly egress: NamespacedName;
  /** Undefined when the API server gave none. */
  readonly token: string | undefined;
  readonly issuedMs: number;
  readonly lifeMs: number;
  readonly renewMs: number;
  usedMs: number;
}

/** The identity in coild's own token. */
interface Identity {
  readonly namespace: string;
  readonly account: string;
  readonly pod: { readonly name: string; readonly uid: string };
}

/**
 * Gets the tokens that gateways are shown: by TokenRequest, with an audience
 * for each Egress, bound to coild's own pod. They are kept in memory and
 * renewed before they end, apart from any ADD, as long as they are used.
 *
 * Why: docs/decisions/0018-announcement-tokens.md.
 */
export class EgressTokens implements AnnounceTokens {
  readonly #client: Pick<KubeClient, "create">;
  readonly #clock: Clock;
  readonly #random: () => number;
  /** By audience, the least recently used first. */
  readonly #held = new Map<string, Held>();
  readonly #flights = new SingleFlight<string | undefined>();
  readonly #failures = new RepeatFilter();
  #identity: Identity | undefined;

  constructor(options: EgressTokensOptions) {
    this.#client = options.client;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
  }

  async token(
    egress: NamespacedName,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<string | undefined> {
    const audience = announceAudience(egress);
    const held = this.#held.get(audience);
    if (held !== undefined && this.#isGood(held)) {
      held.usedMs = this.#clock.nowMs();
      this.#hold(audience, held);
      return held.token;
    }
    try {
      return await abortable(this.#request(egress), signal);
    } catch (err) {
      // The request goes on, and its answer counts. Until then others do not
      // wait out their time limits as well.
      const now = this.#held.get(audience);
      if (now === undefined || !this.#isGood(now)) this.#holdNone(egress);
      throw err;
    }
  }

  refused(egress: NamespacedName, token: string): void {
    const audience = announceAudience(egress);
    const held = this.#held.get(audience);
    if (held?.token !== token) return;
    if (this.#clock.nowMs() - held.issuedMs < LEAST_AGE_MS) return;
    this.#held.delete(audience);
  }

  /** Renews tokens that are in use until the signal; forgets the others. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const waitMs = jittered(ROUND_MS, this.#random);
      await sleep(waitMs, { signal, clock: this.#clock });
      await this.renew(signal);
    }
  }

  /** Renews what is due, one after the other. Never throws. */
  async renew(signal: AbortSignal): Promise<void> {
    for (const [audience, held] of [...this.#held]) {
      if (signal.aborted) return;
      const nowMs = this.#clock.nowMs();
      const isUsed = nowMs - held.usedMs < held.lifeMs;
      if (!isUsed || held.token === undefined && !this.#isGood(held)) {
        // mutate: only frees memory; what is not good is asked for again.
        this.#held.delete(audience);
      } else if (held.token !== undefined && nowMs >= held.renewMs) {
        await this.#request(held.egress);
      }
    }
  }

  #isGood({ token, issuedMs, lifeMs }: Held): boolean {
    const marginMs = token === undefined ? 0 : MARGIN_MS;
    return this.#clock.nowMs() < issuedMs + lifeMs - marginMs;
  }

  /** Never rejects. */
  #request(egress: NamespacedName): Promise<string | undefined> {
    const audience = announceAudience(egress);
    return this.#flights.do(audience, async () => {
      const before = this.#held.get(audience);
      try {
        const { token, lifeMs } = await this.#ask(audience);
        const issuedMs = this.#clock.nowMs();
        // Not all at once after a rollout of coild.
        const renewMs = issuedMs + lifeMs * (0.5 + 0.3 * this.#random());
        const usedMs = before?.usedMs ?? issuedMs;
        this.#hold(audience, {
          egress,
          token,
          issuedMs,
          lifeMs,
          renewMs,
          usedMs,
        });
        return token;
      } catch (err) {
        this.#noteFailure(egress, err);
        // A renewal that failed: the token is good still.
        if (before?.token !== undefined && this.#isGood(before)) {
          return before.token;
        }
        this.#holdNone(egress);
        return undefined;
      }
    });
  }

  async #ask(
    audience: string,
  ): Promise<{ readonly token: string; readonly lifeMs: number }> {
    const { namespace, account, pod } = this.#identity ??= await this.#review();
    const { spec, status } = await this.#client.create(TOKEN_REQUESTS, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        audiences: [audience],
        expirationSeconds: LIFE_SECONDS,
        boundObjectRef: { apiVersion: "v1", kind: "Pod", ...pod },
      },
    }, {
      namespace,
      name: account,
      subresource: "token",
      timeoutMs: REQUEST_TIMEOUT_MS,
    });
    if (!status?.token) {
      throw new Error("Cannot read the token: the answer has none");
    }
    // The API server says here what it made of the request.
    const seconds = spec?.expirationSeconds ?? LEAST_LIFE_SECONDS;
    return { token: status.token, lifeMs: seconds * 1_000 };
  }

  async #review(): Promise<Identity> {
    const { status } = await this.#client.create(SELF_SUBJECT_REVIEWS, {}, {
      timeoutMs: REQUEST_TIMEOUT_MS,
    });
    const { username = "", extra } = status?.userInfo ?? {};
    const [, namespace, account] =
      /^system:serviceaccount:([^:]+):([^:]+)$/.exec(username) ?? [];
    const [name] = extra?.[POD_NAME_EXTRA] ?? [];
    const [uid] = extra?.[POD_UID_EXTRA] ?? [];
    if (!namespace || !account || !name || !uid) {
      throw new Error(
        `Cannot ask for tokens as "${username}": coild's own token is not one that a kubelet made for its pod`,
      );
    }
    return { namespace, account, pod: { name, uid } };
  }

  #hold(audience: string, held: Held): void {
    this.#held.delete(audience);
    this.#held.set(audience, held);
    for (const oldest of this.#held.keys()) {
      if (this.#held.size <= MAX_HELD) break;
      this.#held.delete(oldest);
    }
  }

  /** For a while callers get no token. */
  #holdNone(egress: NamespacedName): void {
    const issuedMs = this.#clock.nowMs();
    this.#hold(announceAudience(egress), {
      egress,
      token: undefined,
      issuedMs,
      lifeMs: FAILED_MS,
      renewMs: Infinity,
      usedMs: issuedMs,
    });
  }

  #noteFailure(egress: NamespacedName, err: unknown): void {
    if (this.#failures.passes(err)) {
      log.warn(
        "Cannot get a token to announce clients with; gateways drop the first packets of new clients until their pods' status has the addresses",
        { egress: nameText(egress), err },
      );
    }
  }
}
