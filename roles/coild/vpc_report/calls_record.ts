import type { Attempt, AwsError } from "../../../lib/aws/mod.ts";

/** For how long a throttled call is worth a word. */
const THROTTLED_MS = 300_000;
/** Calls that are needed are made again sooner; of one that is not, it may have been allowed since. */
const DENIED_MS = 600_000;

export interface CallTroubles {
  /** Rights that were missing when their calls were last made, in the last minutes; for example "ec2:CreateTags". */
  readonly denied: readonly string[];
  /** Calls that were throttled in the last minutes. */
  readonly throttled: readonly string[];
  /** Which of the two the last refusal was, unless its call has succeeded since. */
  readonly last?: "denied" | "throttled" | undefined;
}

/** Remembers how calls of AWS ended. */
export class CallsRecord {
  readonly #now: () => number;
  readonly #deniedAt = new Map<string, number>();
  readonly #throttledAt = new Map<string, number>();
  #last: AwsError | undefined;

  /** `now` gives milliseconds that never go back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Takes a request that has ended. One without an answer says nothing. */
  attempted({ call, result, refusal }: Attempt): void {
    if (result === "none") return;
    if (refusal?.isDenied) this.#deniedAt.set(call, this.#now());
    else if (!refusal?.isThrottled) this.#deniedAt.delete(call);
    if (refusal?.isThrottled) this.#throttledAt.set(call, this.#now());
    if (refusal !== undefined || this.#last?.call === call) {
      this.#last = refusal;
    }
  }

  /** What is wrong now. */
  get troubles(): CallTroubles {
    return {
      denied: this.#since(this.#deniedAt, DENIED_MS)
        .map((call) => `ec2:${call}`),
      throttled: this.#since(this.#throttledAt, THROTTLED_MS),
      last: this.#last?.isDenied
        ? "denied"
        : this.#last?.isThrottled
        ? "throttled"
        : undefined,
    };
  }

  #since(times: ReadonlyMap<string, number>, ms: number): string[] {
    const from = this.#now() - ms;
    return [...times].filter(([, at]) => at > from).map(([call]) => call)
      .sort();
  }
}
