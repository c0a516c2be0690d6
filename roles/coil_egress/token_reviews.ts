import type { Caller } from "../../lib/announce/mod.ts";
import { SingleFlight } from "../../lib/async/mod.ts";
import {
  type KubeClient,
  TOKEN_REVIEWS,
  type V1TokenReview,
} from "../../lib/kube/mod.ts";
import { Allowance } from "./allowance.ts";

/** Extra of a token that is bound to a node, or to a pod on one. */
const NODE_NAME_EXTRA = "authentication.kubernetes.io/node-name";

/** A token that is taken back is taken so much longer. */
const GOOD_MS = 60_000;
const BAD_MS = 10_000;

/** More than a cluster has nodes; strangers' tokens push each other out. */
const MAX_ANSWERS = 4_096;

/**
 * Each token that is not known costs the API server a review, and anybody may
 * send one: so many at once, then so many in a second.
 */
const BURST = 100;
const REVIEWS_PER_MS = 20 / 1_000;

const REVIEW_TIMEOUT_MS = 5_000;

interface Answer {
  readonly caller: Caller | undefined;
  readonly untilMs: number;
}

/** Too many tokens that nobody knows. */
export class TooManyReviewsError extends Error {
  override readonly name = "TooManyReviewsError";
}

/** Asks the API server whose tokens are, and remembers the answers for a while, by the tokens' digests. */
export class TokenReviews {
  readonly #client: Pick<KubeClient, "create">;
  readonly #audience: string;
  readonly #nowMs: () => number;
  readonly #allowance: Allowance;
  readonly #answers = new Map<string, Answer>();
  readonly #flights = new SingleFlight<Caller | undefined>();

  /** Takes tokens of this audience only. */
  constructor(
    client: Pick<KubeClient, "create">,
    options: { readonly audience: string; readonly nowMs?: () => number },
  ) {
    this.#client = client;
    this.#audience = options.audience;
    const nowMs = options.nowMs ?? (() => performance.now());
    this.#nowMs = nowMs;
    this.#allowance = new Allowance({
      burst: BURST,
      perMs: REVIEWS_PER_MS,
      nowMs,
    });
  }

  /**
   * Returns whose token it is; undefined when it is nobody's, or made for others than the gateways of this Egress.
   *
   * @throws {TooManyReviewsError} when too many unknown tokens came
   * @throws {KubeApiError | KubeUnreachableError} when the API server cannot be asked
   */
  async callerOf(token: string): Promise<Caller | undefined> {
    const digest = await digestOf(token);
    const known = this.#answers.get(digest);
    if (known !== undefined && known.untilMs > this.#nowMs()) {
      return known.caller;
    }
    return await this.#flights.do(digest, async () => {
      if (!this.#allowance.take()) {
        throw new TooManyReviewsError(
          "Cannot ask the API server about a token: too many unknown ones came",
        );
      }
      const caller = await this.#review(token);
      this.#remember(digest, caller);
      return caller;
    });
  }

  async #review(token: string): Promise<Caller | undefined> {
    const spec = { token, audiences: [this.#audience] };
    const { status } = await this.#client.create<V1TokenReview>(
      TOKEN_REVIEWS,
      { spec },
      { timeoutMs: REVIEW_TIMEOUT_MS },
    );
    const { authenticated, audiences = [], user } = status ?? {};
    // Without an audience in the answer it is a token for the API server itself.
    const isForUs = audiences.includes(this.#audience);
    const username = user?.username;
    if (authenticated !== true || !isForUs || username === undefined) {
      return undefined;
    }
    const [nodeName] = user?.extra?.[NODE_NAME_EXTRA] ?? [];
    return { username, ...(nodeName !== undefined && { nodeName }) };
  }

  #remember(digest: string, caller: Caller | undefined): void {
    const lifeMs = caller === undefined ? BAD_MS : GOOD_MS;
    this.#answers.delete(digest);
    this.#answers.set(digest, { caller, untilMs: this.#nowMs() + lifeMs });
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= MAX_ANSWERS) break;
      this.#answers.delete(oldest);
    }
  }
}

async function digestOf(token: string): Promise<string> {
  const bytes = new TextEncoder().encode(token);
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return new Uint8Array(digest).toBase64();
}
