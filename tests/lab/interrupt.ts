const LAB = new URL("main.ts", import.meta.url).pathname;

/**
 * Removes the lab of this name by another process and ends this one. Nothing goes on here in the meantime, so that nothing
 * new is made, and no second Ctrl-C cuts it short, since it is in a session of its own.
 */
export function removeLabAndExit(name: string, code: number): never {
  new Deno.Command("setsid", {
    args: ["--wait", Deno.execPath(), "run", "-A", LAB, "down", name],
    stdout: "null",
  }).outputSync();
  Deno.exit(code);
}

/** Lets Ctrl-C, SIGTERM and the end of the terminal remove the lab of this name. */
export function removeLabOnSignals(
  name: string,
  say: (text: string) => void,
): void {
  const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
  const signals = ["SIGHUP", "SIGINT", "SIGTERM"] as const;
  for (const signal of signals) {
    Deno.addSignalListener(signal, () => {
      say("interrupted: cleaning up");
      removeLabAndExit(name, codes[signal]);
    });
  }
}
