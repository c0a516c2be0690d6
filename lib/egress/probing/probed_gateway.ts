import type { Address } from "../../inet/mod.ts";
import {
  afterProbe,
  type GatewayHealth,
  type HealthLimits,
  isInDoubt,
  lostBefore,
  newHealth,
} from "./health.ts";
import { ProbeLoss } from "./loss.ts";
import type { ProbeLine } from "./probe_line.ts";

/** Without an answer of another one for so long, a gateway in doubt is asked like all others. */
const DOUBT_ALONE_MS = 150;
/** A probe in doubt is awaited for this share of its time at least, however late the last miss was noticed. */
const LEAST_SHARE = 1 / 3;
/** After so long without an answer another socket is tried. */
const REOPEN_MS = 5_000;
/** So many probes of a gateway that has never answered; further ones are rarer and rarer. */
const EAGER_PROBES = 4;
const MIN_UNKNOWN_MS = 500;
const MAX_UNKNOWN_MS = 30_000;

/** The Event GatewayBack of coil-controller has both times. */
const LIMITS: HealthLimits = {
  holdMs: 5_000,
  maxHoldMs: 300_000,
  calmMs: 600_000,
};

/** One gateway, with its probes and what is thought of it. */
export class ProbedGateway implements Disposable {
  readonly name: string;
  readonly address: Address;
  readonly #line: ProbeLine;
  readonly #loss = new ProbeLoss();
  #health = newHealth();
  #sentMs = 0;
  #answeredMs = -Infinity;
  #missedMs = 0;
  /** How late the last miss was noticed: on a busy machine, ten times that would delay each decision. */
  #lateMs = 0;
  /** When a miss last counted. */
  #witnessedMs = -Infinity;
  #dueMs = 0;
  #openedMs: number;
  #uid: string | undefined;
  #isAwaiting = false;
  #isDoubted = false;

  constructor(address: Address, line: ProbeLine, nowMs: number) {
    this.name = address.toString();
    this.address = address;
    this.#line = line;
    this.#openedMs = nowMs;
  }

  get health(): GatewayHealth {
    return this.#health;
  }

  /** Whether it works, and many probes of it are lost on the way. */
  get isSuspect(): boolean {
    const { kind } = this.#health;
    return this.#loss.isBad && (kind === "healthy" || kind === "doubted");
  }

  /** When the last probe was sent. */
  get sentMs(): number {
    return this.#sentMs;
  }

  /** When the last probe was sent that was answered. */
  get answeredMs(): number {
    return this.#answeredMs;
  }

  /** When an answer to the last probe is missed; undefined when none is awaited. */
  get missedMs(): number | undefined {
    return this.#isAwaiting ? this.#missedMs : undefined;
  }

  /** Whether it has missed probes that other gateways answer, and may be lost soon. */
  get isDoubted(): boolean {
    return this.#isDoubted;
  }

  /** Whether it is the pod with this UID, as far as that is known. */
  isPod(uid: string | undefined): boolean {
    this.#uid ??= uid;
    return uid === undefined || uid === this.#uid;
  }

  /** Whether it is to be asked in a round now. */
  isDue(nowMs: number): boolean {
    return !this.#isAwaiting && this.#dueMs <= nowMs;
  }

  /** Takes it for lost. False where a probe has shown more than that. */
  recall(): boolean {
    if (this.#health.kind !== "unknown") return false;
    this.#health = lostBefore();
    return true;
  }

  /** Sends a probe, and awaits an answer for one of these times. */
  send(
    nowMs: number,
    { answerMs, doubtMs }: {
      readonly answerMs: number;
      /** While it is in doubt. */
      readonly doubtMs: number;
    },
  ): void {
    this.#line.send();
    this.#sentMs = nowMs;
    // A witness may be asked again before its answer is missed.
    if (this.#isAwaiting) return;
    this.#isAwaiting = true;
    this.#missedMs = nowMs +
      (isInDoubt(this.#health)
        ? Math.max(doubtMs * LEAST_SHARE, doubtMs - this.#lateMs)
        : answerMs);
  }

  /** Takes an answer if one is awaited and has come. */
  takeAnswer(nowMs: number): void {
    if (!this.#isAwaiting || !this.#line.takeAnswers()) return;
    this.#answeredMs = this.#sentMs;
    this.#isDoubted = false;
    this.#judge({ isAnswered: true, nowMs });
  }

  /** Takes note that its answer is missed. */
  miss(
    nowMs: number,
    { counts }: {
      /** Whether others have answered. */
      readonly counts: boolean;
    },
  ): void {
    this.#isAwaiting = false;
    this.#lateMs = nowMs - this.#missedMs;
    if (counts) this.#witnessedMs = nowMs;
    if (counts || this.#health.kind === "unknown") {
      this.#judge({ isAnswered: false, nowMs });
    }
    const isAlone = nowMs - this.#witnessedMs > DOUBT_ALONE_MS;
    this.#isDoubted = isInDoubt(this.#health) && !isAlone;
    this.#reopenInTime(nowMs);
  }

  [Symbol.dispose](): void {
    this.#line[Symbol.dispose]();
  }

  #judge(
    { isAnswered, nowMs }: {
      readonly isAnswered: boolean;
      readonly nowMs: number;
    },
  ): void {
    const { kind } = this.#health;
    // Of a gateway that is lost nothing is learned but by its answer.
    const isKnown = kind !== "unknown" && kind !== "lost";
    if (isKnown || isAnswered) this.#loss.add(isAnswered);
    const probe = { isAnswered, nowMs, misses: this.#loss.misses };
    this.#health = afterProbe(this.#health, probe, LIMITS);
    this.#isAwaiting = false;
    this.#dueMs = this.#health.kind === "unknown"
      ? nowMs + unknownWaitMs(this.#health.misses)
      : 0;
  }

  /** Routes and the node's own addresses may have changed. Not at once: an answer may be late. */
  #reopenInTime(nowMs: number): void {
    const sinceMs = Math.max(this.#answeredMs, this.#openedMs);
    if (nowMs - sinceMs < REOPEN_MS) return;
    this.#line.reopen();
    this.#openedMs = nowMs;
  }
}

/** Gateways of other versions never answer. */
function unknownWaitMs(misses: number): number {
  if (misses < EAGER_PROBES) return 0;
  return Math.min(
    MAX_UNKNOWN_MS,
    MIN_UNKNOWN_MS * 2 ** (misses - EAGER_PROBES),
  );
}
