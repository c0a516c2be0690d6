import {
  Backoff,
  type Clock,
  Gate,
  jittered,
  sleep,
  systemClock,
} from "../../../lib/async/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";

const log = getLogger("vpc");

/** After a failure. What calls of AWS wait by themselves comes on top. */
const FAILURE = { initialMs: 500, maxMs: 30_000 };

export interface WatcherOptions {
  /** What is looked at, for logs. */
  readonly what: string;
  readonly look: (signal: AbortSignal) => Promise<void>;
  /** Whether something is awaited that the next look may show. */
  readonly isAwaited: () => boolean;
  /** Pauses while something is awaited. */
  readonly soon: { readonly initialMs: number; readonly maxMs: number };
  /** About how often it looks when nothing is. */
  readonly calmMs: number;
  /** Default: the machine's. */
  readonly clock?: Clock;
}

/** Looks at something outside again and again: soon while something is awaited, else now and then. */
export class Watcher {
  readonly #options: WatcherOptions;
  readonly #soon: Backoff;
  readonly #failures = new RepeatFilter();
  #asked = new Gate();

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#soon = new Backoff(options.soon);
  }

  /** Asks for a look that begins after this call, and for others soon after it while something is awaited. */
  ask(): void {
    this.#soon.reset();
    this.#asked.open();
  }

  /** Looks until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { what, look, isAwaited, calmMs, clock = systemClock } =
      this.#options;
    const failure = new Backoff(FAILURE);
    for (;;) {
      this.#asked = new Gate();
      try {
        await look(signal);
        failure.reset();
        const pauseMs = isAwaited() ? this.#soon.nextMs() : jittered(calmMs);
        await this.#asked.waitAtMost(pauseMs, { signal, clock });
      } catch (err) {
        // mutate: else there is a record more at the end.
        signal.throwIfAborted();
        if (this.#failures.passes(err)) {
          log.warn("Cannot list the network interfaces; retrying", {
            what,
            err,
          });
        }
        await sleep(failure.nextMs(), { signal, clock });
      }
    }
  }
}
