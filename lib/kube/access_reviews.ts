import { SingleFlight } from "../async/mod.ts";
import type { KubeClient } from "./client.ts";
import { SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS } from "./resource.ts";
import type { V1SubjectAccessReview, V1TokenReview } from "./types.ts";

/** A right that is taken back holds so much longer. */
const GOOD_MS = 60_000;
const BAD_MS = 10_000;
/** Far more than there are scrapers; strangers' tokens push each other out. */
const MAX_ANSWERS = 256;
/** Each unknown token costs the API server up to two reviews: so many at once, then so many in a second. */
const BURST = 20;
const REVIEWS_PER_MS = 5 / 1_000;
const REVIEW_TIMEOUT_MS = 5_000;

/** 200: allowed; 401: nobody's token; 403: the user may not; 429: too many tokens that are not known. */
type Status = 200 | 401 | 403 | 429;

/**
 * Asks the API server whether the bearer of a token may get a URL path, as kube-rbac-proxy does: TokenReview, then
 * SubjectAccessReview. Remembers the answers for a while, by the tokens' digests.
 */
export class AccessReviews {
  readonly #client: Pick<KubeClient, "create">;
  readonly #path: string;
  readonly #nowMs: () => number;
  readonly #answers = new Map<string, { status: Status; untilMs: number }>();
  readonly #flights = new SingleFlight<Status>();
  #allowance = { reviews: BURST, atMs: -Infinity };

  constructor(
    client: Pick<KubeClient, "create">,
    options: { readonly path: string; readonly nowMs?: () => number },
  ) {
    this.#client = client;
    this.#path = options.path;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Undefined when the request is allowed; else the answer to it. */
  async refusal(request: Request): Promise<Response | undefined> {
    const status = await this.#statusOf(request);
    if (status === 200) return undefined;
    const challenge = { "www-authenticate": "Bearer" };
    return new Response(`${REASONS[status]}\n`, {
      status,
      headers: status === 401 ? challenge : {},
    });
  }

  async #statusOf(request: Request): Promise<Status> {
    const header = request.headers.get("authorization") ?? "";
    // RFC 6750, section 2.1.
    const token = /^Bearer +([-._~+/A-Za-z0-9]+=*)$/i.exec(header)?.[1];
    if (token === undefined) return 401;
    const bytes = new TextEncoder().encode(token);
    const digest = new Uint8Array(
      await crypto.subtle.digest("SHA-256", bytes),
    ).toBase64();
    const known = this.#answers.get(digest);
    if (known !== undefined && known.untilMs > this.#nowMs()) {
      return known.status;
    }
    return await this.#flights.do(digest, async () => {
      if (!this.#isAffordable()) return 429;
      const status = await this.#review(token);
      this.#remember(digest, status);
      return status;
    });
  }

  async #review(token: string): Promise<Status> {
    const options = { timeoutMs: REVIEW_TIMEOUT_MS };
    const { status } = await this.#client.create<V1TokenReview>(
      TOKEN_REVIEWS,
      { spec: { token } },
      options,
    );
    const { authenticated, user } = status ?? {};
    const { username, uid = "", groups = [], extra = {} } = user ?? {};
    if (authenticated !== true || username === undefined) return 401;
    const review = await this.#client.create<V1SubjectAccessReview>(
      SUBJECT_ACCESS_REVIEWS,
      {
        spec: {
          ...{ user: username, uid, groups, extra },
          nonResourceAttributes: { path: this.#path, verb: "get" },
        },
      },
      options,
    );
    return review.status?.allowed === true ? 200 : 403;
  }

  #remember(digest: string, status: Status): void {
    const lifeMs = status === 200 ? GOOD_MS : BAD_MS;
    this.#answers.delete(digest);
    this.#answers.set(digest, { status, untilMs: this.#nowMs() + lifeMs });
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= MAX_ANSWERS) break;
      this.#answers.delete(oldest);
    }
  }

  #isAffordable(): boolean {
    const atMs = this.#nowMs();
    const { reviews, atMs: lastMs } = this.#allowance;
    const left = Math.min(BURST, reviews + (atMs - lastMs) * REVIEWS_PER_MS) -
      1;
    if (left < 0) return false;
    this.#allowance = { reviews: left, atMs };
    return true;
  }
}

/** Asks whether the bearer of a request's token may get `/metrics`. */
export function metricsRefusal(
  client: Pick<KubeClient, "create">,
): (request: Request) => Promise<Response | undefined> {
  const reviews = new AccessReviews(client, { path: "/metrics" });
  return (request) => reviews.refusal(request);
}

const REASONS: Readonly<Record<Exclude<Status, 200>, string>> = {
  401: "a bearer token of this cluster is needed",
  403: "the API server does not allow this user to get this URL",
  429: "too many tokens that are not known; try again",
};
