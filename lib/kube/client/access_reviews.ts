import { bearerTokenOf, type Refusal } from "../../telemetry/mod.ts";
import type { KubeClient } from "./client.ts";
import { SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS } from "../api/resource.ts";
import { TokenAnswers, TooManyTokensError } from "./token_answers.ts";
import type { V1SubjectAccessReview, V1TokenReview } from "../api/objects.ts";

/** Each unknown token costs up to two reviews. A scraper has one. */
const PER_PEER = { burst: 5, perSecond: 1 };
const IN_ALL = { burst: 20, perSecond: 5 };
const REVIEW_TIMEOUT_MS = 5_000;

/** 200: allowed; 401: the token is not valid; 403: the user may not; 429: too many unknown tokens. */
type Status = 200 | 401 | 403 | 429;

/**
 * Asks the API server whether the bearer of a token may get a URL path, as kube-rbac-proxy does: TokenReview, then
 * SubjectAccessReview. Remembers the answers for a while.
 */
export class AccessReviews {
  readonly #client: Pick<KubeClient, "create">;
  readonly #path: string;
  readonly #answers: TokenAnswers<Status>;

  constructor(
    client: Pick<KubeClient, "create">,
    options: { readonly path: string; readonly nowMs?: () => number },
  ) {
    const { path, ...clock } = options;
    this.#client = client;
    this.#path = path;
    this.#answers = new TokenAnswers<Status>({
      ask: (token) => this.#review(token),
      isGood: (status) => status === 200,
      perPeer: PER_PEER,
      inAll: IN_ALL,
      ...clock,
    });
  }

  /** Undefined when the request is allowed; else the answer to it. */
  async refusal(request: Request, peer: string): Promise<Response | undefined> {
    const status = await this.#statusOf(request, peer);
    if (status === 200) return undefined;
    const challenge = { "www-authenticate": "Bearer" };
    return new Response(`${REASONS[status]}\n`, {
      status,
      headers: status === 401 ? challenge : {},
    });
  }

  async #statusOf(request: Request, peer: string): Promise<Status> {
    const token = bearerTokenOf(request);
    if (token === undefined) return 401;
    try {
      return await this.#answers.about(token, peer);
    } catch (error) {
      if (error instanceof TooManyTokensError) return 429;
      throw error;
    }
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
          user: username,
          uid,
          groups,
          extra,
          nonResourceAttributes: { path: this.#path, verb: "get" },
        },
      },
      options,
    );
    return review.status?.allowed === true ? 200 : 403;
  }
}

/** Asks whether the bearer of a request's token may get `/metrics`. */
export function metricsRefusal(client: Pick<KubeClient, "create">): Refusal {
  const reviews = new AccessReviews(client, { path: "/metrics" });
  return (request, peer) => reviews.refusal(request, peer);
}

const REASONS: Readonly<Record<Exclude<Status, 200>, string>> = {
  401: "a bearer token of this cluster is needed",
  403: "the API server does not allow this user to get this URL",
  429: "too many unknown tokens; try again",
};
