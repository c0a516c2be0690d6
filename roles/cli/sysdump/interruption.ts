import { CommandError } from "../base/errors.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Turns Ctrl-C into the abortion of a signal: what was begun is cleaned up before the process ends. */
export function catchInterruption(): {
  readonly signal: AbortSignal;
} & Disposable {
  const controller = new AbortController();
  const interrupt = () =>
    controller.abort(new CommandError("Interrupted: no archive was written"));
  for (const name of SIGNALS) Deno.addSignalListener(name, interrupt);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      for (const name of SIGNALS) Deno.removeSignalListener(name, interrupt);
    },
  };
}
