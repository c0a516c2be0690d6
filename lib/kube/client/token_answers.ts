import {
  Allowance,
  Allowances,
  BoundedMap,
  type Rate,
  SingleFlight,
} from "../../async/mod.ts";

/** How long a revoked right is still valid here. */
const GOOD_MS = 60_000;
const BAD_MS = 10_000;
/** A good token is asked about no more often, also while the API server refuses to answer. */
const AGAIN_MS = 1_000;
/** Of 5,000 nodes, each with the token of this hour and of the last one. Bad ones are kept apart: they push no good one out. */
const MAX_GOOD = 16_384;
const MAX_BAD = 4_096;
const MAX_PEERS = 16_384;

export interface TokenAnswersOptions<T> {
  /** Asks the API server about a token. What it throws is not remembered. */
  readonly ask: (token: string) => Promise<T>;
  /**
   * Whether the bearer is one of those that this server is for: only such tokens are asked about outside of the limits.
   * Every pod and user of the cluster may have a valid token.
   */
  readonly isGood: (answer: T) => boolean;
  /** How many unknown tokens of one peer are asked about at once, and how many in a second after that. */
  readonly perPeer: Rate;
  /** The same, of all peers. */
  readonly inAll: Rate;
  /** A clock that only goes forward. Default: `performance.now()`. */
  readonly nowMs?: () => number;
}

/** Too many unknown tokens came: the API server is not asked about this one. */
export class TooManyTokensError extends Error {
  override readonly name = "TooManyTokensError";
}

interface Known<T> {
  readonly answer: T;
  readonly untilMs: number;
  /** When it was asked about. */
  askedMs: number;
}

/**
 * What the API server says of bearer tokens, remembered for a while by their digests.
 *
 * Each unknown token costs the API server a request, and any peer may send one. So they are limited, for each peer and
 * in all. A token that was good is asked about again outside of these limits: a flood of others keeps no known one out.
 */
export class TokenAnswers<T> {
  readonly #options: TokenAnswersOptions<T>;
  readonly #nowMs: () => number;
  readonly #good = new BoundedMap<string, Known<T>>(MAX_GOOD);
  readonly #bad = new BoundedMap<string, Known<T>>(MAX_BAD);
  readonly #flights = new SingleFlight<T>();
  readonly #ofPeers: Allowances;
  readonly #inAll: Allowance;

  constructor(options: TokenAnswersOptions<T>) {
    const { perPeer, inAll, nowMs = () => performance.now() } = options;
    this.#options = options;
    this.#nowMs = nowMs;
    this.#ofPeers = new Allowances(perPeer, { max: MAX_PEERS, nowMs });
    this.#inAll = new Allowance(inAll, { nowMs });
  }

  /**
   * Returns the answer about a token.
   *
   * @throws {TooManyTokensError} when the peer, or all together, sent too many unknown ones
   */
  async about(token: string, peer: string): Promise<T> {
    const digest = await digestOf(token);
    const known = this.#good.get(digest) ?? this.#bad.get(digest);
    if (known !== undefined && known.untilMs > this.#nowMs()) {
      return known.answer;
    }
    return await this.#flights.do(digest, async () => {
      this.#pay(digest, peer);
      const answer = await this.#options.ask(token);
      this.#remember(digest, answer);
      return answer;
    });
  }

  #pay(digest: string, peer: string): void {
    const nowMs = this.#nowMs();
    const good = this.#good.get(digest);
    if (good !== undefined && nowMs - good.askedMs >= AGAIN_MS) {
      good.askedMs = nowMs;
      return;
    }
    const ofPeer = this.#ofPeers.of(peer);
    const isAffordable = good === undefined && ofPeer.canTake() &&
      this.#inAll.take() && ofPeer.take();
    if (isAffordable) return;
    throw new TooManyTokensError(
      `Cannot ask the API server about a token from ${peer}: too many unknown tokens`,
    );
  }

  #remember(digest: string, answer: T): void {
    const isGood = this.#options.isGood(answer);
    const [map, other, lifeMs] = isGood
      ? [this.#good, this.#bad, GOOD_MS]
      : [this.#bad, this.#good, BAD_MS];
    other.delete(digest);
    const askedMs = this.#nowMs();
    map.set(digest, { answer, askedMs, untilMs: askedMs + lifeMs });
  }
}

async function digestOf(token: string): Promise<string> {
  const bytes = new TextEncoder().encode(token);
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return new Uint8Array(digest).toBase64();
}
