import { Backoff, sleep } from "../../async/mod.ts";
// Not the whole unit: plugins, which start for every pod, load this file, too.
import { RepeatFilter } from "../../telemetry/base/mod.ts";
import type { Logger } from "../../telemetry/mod.ts";
import type { Notification } from "./route_monitor.ts";

/** The part of a monitor that listening takes. */
export interface Listener<T = Notification> extends AsyncDisposable {
  /** Waits for notifications and returns them. @throws the signal's reason when it aborts */
  next(options: { readonly signal: AbortSignal }): Promise<readonly T[]>;
}

export interface ListenOptions<T = Notification> {
  /** Begins to listen; done again after a failure. */
  readonly watch: () => Listener<T>;
  /** Called when it listens: what happened before is not reported. */
  readonly onStart: () => void;
  /** Gets what others changed. */
  readonly onHeard: (notifications: readonly T[]) => void;
  /** Called on each failure; it is tried again after a while. */
  readonly onFailure: (error: unknown) => void;
  readonly signal: AbortSignal;
  /** The shortest and longest pause after a failure. Default 1 s and 5 min. */
  readonly retryMs?: { readonly initialMs: number; readonly maxMs: number };
}

/** Warns of failures to listen, of each text now and then. `instead` says what is done until it works again. */
export function warnOfDeafness(
  log: Logger,
  instead: string,
  failures: RepeatFilter = new RepeatFilter(),
): (error: unknown) => void {
  return (err) => {
    if (!failures.passes(err)) return;
    log.warn(`Cannot subscribe to kernel notifications; ${instead}`, { err });
  };
}

/** Listens to what others change until the signal, and never gives up. */
export async function listen<T>(options: ListenOptions<T>): Promise<void> {
  const { watch, onStart, onHeard, onFailure, signal } = options;
  const backoff = new Backoff(
    options.retryMs ?? { initialMs: 1_000, maxMs: 300_000 },
  );
  for (;;) {
    try {
      await using monitor = watch();
      onStart();
      for (;;) {
        const found = await monitor.next({ signal });
        backoff.reset();
        if (found.length > 0) onHeard(found);
      }
    } catch (error) {
      signal.throwIfAborted();
      onFailure(error);
    }
    await sleep(backoff.nextMs(), { signal });
  }
}
