import { CommandError } from "./errors.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Turns Ctrl-C into the abortion of a signal, with this message: what was begun
 * is cleaned up before the process ends. The second one ends it at once.
 */
export function catchInterruption(message: string): {
  readonly signal: AbortSignal;
} & Disposable {
  const controller = new AbortController();
  const release = () => {
    for (const name of SIGNALS) Deno.removeSignalListener(name, interrupt);
  };
  const interrupt = () => {
    release();
    controller.abort(new CommandError(message));
  };
  for (const name of SIGNALS) Deno.addSignalListener(name, interrupt);
  return { signal: controller.signal, [Symbol.dispose]: release };
}
