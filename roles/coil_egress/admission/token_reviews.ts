import type { Caller } from "../../../lib/announce/mod.ts";
import {
  type KubeClient,
  TOKEN_REVIEWS,
  TokenAnswers,
  type V1TokenReview,
} from "../../../lib/kube/mod.ts";

/** Extra of a token that is bound to a node, or to a pod on one. */
const NODE_NAME_EXTRA = "authentication.kubernetes.io/node-name";

/** A node has one token for an Egress, and a new one within the hour. */
const PER_PEER = { burst: 20, perSecond: 2 };
const IN_ALL = { burst: 100, perSecond: 20 };

const REVIEW_TIMEOUT_MS = 5_000;

/** Asks the API server whose tokens are, and remembers the answers for a while. */
export class TokenReviews {
  readonly #client: Pick<KubeClient, "create">;
  readonly #audience: string;
  readonly #answers: TokenAnswers<Caller | undefined>;

  /** Takes tokens of this audience only; those of the user (coild) are reviewed however much others send. */
  constructor(
    client: Pick<KubeClient, "create">,
    options: {
      readonly audience: string;
      readonly user: string;
      readonly nowMs?: () => number;
    },
  ) {
    const { audience, user, ...clock } = options;
    this.#client = client;
    this.#audience = audience;
    this.#answers = new TokenAnswers<Caller | undefined>({
      ask: (token) => this.#review(token),
      isGood: (caller) => caller?.username === user,
      perPeer: PER_PEER,
      inAll: IN_ALL,
      ...clock,
    });
  }

  /**
   * Returns whose token it is; undefined when it is not valid, or made for others than the gateways of this Egress.
   *
   * @throws {TooManyTokensError} when too many unknown tokens came from this address, or in all
   * @throws {KubeApiError | KubeUnreachableError} when the API server cannot be asked
   */
  async callerOf(token: string, peer: string): Promise<Caller | undefined> {
    return await this.#answers.about(token, peer);
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
}
