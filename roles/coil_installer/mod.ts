/**
 * coil-installer, which gives a node the CNI plugin: the executable, and the
 * network configuration that makes the container runtime call it.
 *
 * This file only connects the parts.
 *
 * @module
 */
import { EXIT } from "../../lib/flags/mod.ts";
import { VERSION } from "../../lib/names/mod.ts";
import { configureLogging, getLogger } from "../../lib/telemetry/mod.ts";
import { InstallError } from "./base/errors.ts";
import { type Command, parseInstallerFlags } from "./flags.ts";
import { install } from "./install.ts";
import type { InstallRequest } from "./plan/request.ts";
import { uninstall, type UninstallRequest } from "./uninstall.ts";

const COMMANDS: Readonly<Record<Command, Run>> = { install, uninstall };

type Run = (
  options: InstallRequest & UninstallRequest,
  signal: AbortSignal,
) => Promise<void>;

/** Installs or uninstalls, and ends the process. */
export async function main(
  args: readonly string[],
  { program }: { readonly program: string },
): Promise<void> {
  const options = parseInstallerFlags(
    { args, env: (name) => Deno.env.get(name) },
    {
      program,
      version: VERSION,
      about: "Installs Coil's CNI plugin on a node, or uninstalls it.",
      positionals: "[install|uninstall]",
    },
  );
  configureLogging(options.logging);
  const log = getLogger("installer");
  const stop = new AbortController();
  // As process 1 of a container it would not be ended by them otherwise.
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => {
      stop.abort(new DOMException(`Received ${signal}`, "AbortError"));
    });
  }
  try {
    await COMMANDS[options.command](options, stop.signal);
  } catch (error) {
    const isExpected = error instanceof InstallError || stop.signal.aborted;
    const stack = error instanceof Error && !isExpected
      ? { stacktrace: error.stack }
      : {};
    log.error(`Cannot run ${program}`, { err: error, ...stack });
    Deno.exit(EXIT.failed);
  }
  Deno.exit(EXIT.ok);
}
