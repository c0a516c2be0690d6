import { getLogger } from "./base/log.ts";

export interface DaemonOptions {
  /** How long a stop may take after the first signal. */
  readonly graceMs: number;
}

/**
 * Runs a daemon's main function, then exits the process.
 *
 * SIGTERM or SIGINT aborts the signal that `main` gets; a second one, or the grace time being over, exits with 1 at
 * once. The process exits with 0 when `main` returns or stops on the signal, with 1 and the error on record otherwise.
 */
export async function runDaemon(
  name: string,
  main: (signal: AbortSignal) => Promise<void>,
  options: DaemonOptions,
): Promise<never> {
  const log = getLogger("setup");
  const controller = new AbortController();
  const onSignal = (received: string) => {
    if (controller.signal.aborted) {
      log.warn("Exiting at once on a second signal", { signal: received });
      Deno.exit(1);
    }
    log.info("Stopping", { program: name, signal: received });
    setTimeout(() => {
      log.error("Stopping takes too long", { graceMs: options.graceMs });
      Deno.exit(1);
    }, options.graceMs);
    controller.abort(new DOMException(`Received ${received}`, "AbortError"));
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => onSignal(signal));
  }
  const onUnhandled = (event: Event, error: unknown): never => {
    event.preventDefault();
    log.error("Stopped by an unhandled error", stackOf(error));
    Deno.exit(1);
  };
  globalThis.addEventListener(
    "unhandledrejection",
    (event) => onUnhandled(event, event.reason),
  );
  // From a timer, say.
  globalThis.addEventListener(
    "error",
    (event) => onUnhandled(event, event.error),
  );
  try {
    await main(controller.signal);
  } catch (error) {
    if (!isAbort(error, controller.signal)) {
      log.error(`Cannot run ${name}`, { err: error });
      Deno.exit(1);
    }
  }
  Deno.exit(0);
}

function stackOf(error: unknown): Record<string, unknown> {
  return error instanceof Error
    ? { err: error, stacktrace: error.stack }
    : { err: error };
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  return error === signal.reason ||
    (error instanceof Error && error.name === "AbortError");
}
