import { CommandError } from "../../../lib/command/mod.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Turns Ctrl-C into the abortion of a signal, with this message: what was begun
 * is cleaned up before the process ends. The second one ends it at once. A
 * command that is ended otherwise has its own signal.
 */
export function catchInterruption(
  message: string,
  own: AbortSignal | undefined,
): { readonly signal: AbortSignal } & Disposable {
  if (own !== undefined) return { signal: own, [Symbol.dispose]: () => {} };
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
