import type { Attempt } from "../../../lib/aws/mod.ts";

/** For how long a throttled call is worth a word. */
const THROTTLED_MS = 300_000;

/** What is wrong with calls of AWS. */
export interface CallTroubles {
  /** Rights that were missing when their calls were last made, for example "ec2:CreateTags". */
  readonly denied: readonly string[];
  /** Calls that were throttled in the last minutes. */
  readonly throttled: readonly string[];
}

/** Remembers how calls of AWS ended. */
export class CallsRecord {
  readonly #now: () => number;
  readonly #denied = new Set<string>();
  readonly #throttledAt = new Map<string, number>();

  /** `now` gives milliseconds that never go back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Takes a request that has ended. One without an answer says nothing. */
  attempted({ call, result, refusal }: Attempt): void {
    if (result === "none") return;
    if (refusal?.isDenied) this.#denied.add(call);
    else if (!refusal?.isThrottled) this.#denied.delete(call);
    if (refusal?.isThrottled) this.#throttledAt.set(call, this.#now());
  }

  /** What is wrong now. */
  get troubles(): CallTroubles {
    const since = this.#now() - THROTTLED_MS;
    return {
      denied: [...this.#denied].map((call) => `ec2:${call}`).sort(),
      throttled: [...this.#throttledAt].filter(([, at]) => at > since)
        .map(([call]) => call).sort(),
    };
  }
}
