import {
  Allowance,
  Backoff,
  type Clock,
  Mutex,
  type Rate,
  sleep,
  systemClock,
  type WaitOptions,
} from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { AwsError, AwsNoAnswerError } from "../base/errors.ts";
import { Pause } from "./pause.ts";

const log = getLogger("aws");

/** AWS limits calls that read and calls that change apart. */
export type CallKind = "read" | "change";

/** Enough for a node that starts with three interfaces to wait for none of its calls. */
const RATES: Readonly<Record<CallKind, Rate>> = {
  read: { burst: 20, perSecond: 2 },
  change: { burst: 20, perSecond: 2 },
};
const MAX_ATTEMPTS = 5;
/** Before another attempt after a failure of AWS or of the network. */
const BACKOFF = { initialMs: 200, maxMs: 10_000, jitter: 1 };

/** Name and kind of a call. */
export interface AwsCall {
  readonly name: string;
  readonly kind: CallKind;
  /** Whether it may be made again when it is not known whether it did anything. Default: what reads may. */
  readonly isRepeatable?: boolean | undefined;
}

/** One attempt of a call, for metrics. */
export interface Attempt {
  readonly call: string;
  /** "success", AWS' code, or "none" where there was no answer. */
  readonly result: string;
  /** What AWS said when it refused. */
  readonly refusal?: AwsError | undefined;
  readonly durationMs: number;
}

/** How a {@linkcode CallBudget} works. */
export interface CallBudgetOptions {
  /** How often calls may be made. Default: 20 at once and 2 in a second, of each kind. */
  readonly rates?: Readonly<Record<CallKind, Rate>>;
  /** Default 5. */
  readonly maxAttempts?: number;
  /** Gets each attempt when it has ended. */
  readonly onAttempt?: ((attempt: Attempt) => void) | undefined;
  readonly clock?: Clock | undefined;
  /** A number from 0 to below 1. Default `Math.random`. */
  readonly random?: () => number;
}

/** The calls of one kind: who is next, how many are left, and the pause. */
interface Lane {
  readonly turn: Mutex;
  readonly allowance: Allowance;
  readonly pause: Pause;
}

/** A node's budget of AWS calls: paces all of them, and retries them where that can help. */
export class CallBudget {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #maxAttempts: number;
  readonly #onAttempt: ((attempt: Attempt) => void) | undefined;
  readonly #lanes: Readonly<Record<CallKind, Lane>>;

  /** Makes a budget that is full. */
  constructor(options: CallBudgetOptions = {}) {
    const { clock = systemClock, random = Math.random, rates = RATES } =
      options;
    this.#clock = clock;
    this.#random = random;
    this.#onAttempt = options.onAttempt;
    this.#maxAttempts = options.maxAttempts ?? MAX_ATTEMPTS;
    const lane = (rate: Rate): Lane => ({
      turn: new Mutex(),
      allowance: new Allowance(rate, { nowMs: () => clock.nowMs() }),
      pause: new Pause(random),
    });
    this.#lanes = { read: lane(rates.read), change: lane(rates.change) };
  }

  /** For how long calls of this kind pause now, because the account makes too many; 0 when they do not. */
  pausedMs(kind: CallKind): number {
    return this.#lanes[kind].pause.leftMs(this.#clock.nowMs());
  }

  /**
   * Makes a call when it is its turn, in the order of coming, and again after it was throttled; after a failure of
   * AWS or of the network only if it may be repeated.
   *
   * @throws what `make` threw last
   * @throws the signal's reason
   */
  async spend<T>(
    call: AwsCall,
    make: () => Promise<T>,
    { signal }: WaitOptions = {},
  ): Promise<T> {
    const { pause } = this.#lanes[call.kind];
    const backoff = new Backoff({ ...BACKOFF, random: this.#random });
    for (let attempt = 1;; attempt++) {
      await this.#turn(call.kind, signal);
      const sentMs = this.#clock.nowMs();
      try {
        const answer = await make();
        pause.admitted();
        this.#report(call, { sentMs });
        return answer;
      } catch (error) {
        this.#report(call, { error, sentMs });
        const isThrottled = error instanceof AwsError && error.isThrottled;
        if (isThrottled) pause.refused(sentMs, this.#clock.nowMs());
        const again = attempt < this.#maxAttempts &&
          (isThrottled || mayRepeat(call, error));
        if (!again) throw error;
        const delayMs = isThrottled ? 0 : backoff.nextMs();
        log.info("Retrying an AWS call", {
          call: call.name,
          attempt: attempt + 1,
          afterMs: Math.round(delayMs + this.pausedMs(call.kind)),
          err: error,
        });
        await sleep(delayMs, { signal, clock: this.#clock });
      }
    }
  }

  #report(
    { name: call }: AwsCall,
    { error, sentMs }: { readonly error?: unknown; readonly sentMs: number },
  ): void {
    const durationMs = this.#clock.nowMs() - sentMs;
    const refusal = error instanceof AwsError ? error : undefined;
    const result = refusal?.code ?? (error === undefined ? "success" : "none");
    this.#onAttempt?.({ call, result, refusal, durationMs });
  }

  /** Waits until a call may be made. */
  async #turn(
    kind: CallKind,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { turn, allowance, pause } = this.#lanes[kind];
    const clock = this.#clock;
    using _turn = await turn.lock({ signal });
    const earlyMs = allowance.takeOrOwe();
    if (earlyMs > 0) await sleep(earlyMs, { signal, clock });
    for (;;) {
      const leftMs = pause.leftMs(clock.nowMs());
      if (leftMs === 0) return;
      await sleep(leftMs, { signal, clock });
    }
  }
}

function mayRepeat({ kind, isRepeatable }: AwsCall, error: unknown): boolean {
  const isHarmless = isRepeatable ?? kind === "read";
  return isHarmless && (error instanceof AwsNoAnswerError ||
    error instanceof AwsError && error.isTransient);
}
