import { getLogger } from "../../lib/telemetry/mod.ts";
import { parseChainEntry } from "./plan/chain.ts";
import { InstallError } from "./base/errors.ts";
import { findExecutable } from "./read/executable.ts";
import { ensureDirectory, lockDirectories } from "./apply/host_directory.ts";
import { installConfig, untilTarget } from "./install_config.ts";
import { embeddedLauncher, launcherFor } from "./base/launcher.ts";
import { NetworkListError, parseWantedList } from "./base/network_list.ts";
import {
  planPlugin,
  type PluginPlan,
  type PluginPrograms,
} from "./plan/plugin_files.ts";
import { launcherProgram, type Program } from "./base/program.ts";
import type { InstallRequest } from "./plan/request.ts";
import { applySteps } from "./apply/steps.ts";
import { socketOf, type Wanted } from "./plan/target.ts";

const log = getLogger("installer");

/**
 * Makes the node have the plugin, then the configuration that names it.
 * What is right already is left alone.
 *
 * @throws {InstallError} when it cannot be done; what was there before still is
 */
export async function install(
  request: InstallRequest,
  signal: AbortSignal,
): Promise<void> {
  // All that can be wrong with the request itself, before anything is touched.
  const wanted = await readWanted(request);
  const executable = await findExecutable(request.coilPath);
  const programs = { executable, launcher: findLauncher(wanted) };
  const { binDirectory, etcDirectory, dryRun } = request;
  for (const directory of [binDirectory, etcDirectory]) {
    await ensureDirectory(directory, { dryRun });
  }
  if (!dryRun) await untilTarget(request, { wanted, signal });
  using _lock = dryRun
    ? undefined
    : await lockDirectories([binDirectory, etcDirectory], signal);
  const files = await installPlugin(request, { programs, signal });
  const configuration = await installConfig(request, { wanted, signal });
  if (request.prepareEgress && !dryRun) await prepareEgress();
  log.info(dryRun ? "Nothing was changed" : "Installed", {
    ...files,
    configuration,
  });
}

/** A kernel without tunnels is no reason to leave the node without a network. */
async function prepareEgress(): Promise<void> {
  // No other run needs it.
  const { prepareKernel } = await import("../../lib/egress/mod.ts");
  for (const family of ["ipv4", "ipv6"] as const) {
    try {
      await prepareKernel([family]);
      log.info("The kernel can make egress tunnels", { family });
    } catch (error) {
      log.warn("The kernel cannot make egress tunnels", { family, err: error });
    }
  }
}

async function readWanted(
  { netconf, netconfFile, chain }: InstallRequest,
): Promise<Wanted> {
  if (netconf === "" && netconfFile === "") {
    throw new InstallError(
      "Cannot install without a network configuration: set CNI_NETCONF or CNI_NETCONF_FILE (--netconf, --netconf-file)",
    );
  }
  const origin = netconf !== ""
    ? "CNI_NETCONF (--netconf)"
    : `the file "${netconfFile}"`;
  try {
    const text = netconf || await Deno.readTextFile(netconfFile);
    return chain
      ? { kind: "chained", entry: parseChainEntry(text) }
      : { kind: "list", list: parseWantedList(text) };
  } catch (cause) {
    const isKnown = cause instanceof NetworkListError ||
      (cause instanceof Error && "code" in cause);
    if (!isKnown) throw cause;
    throw new InstallError(
      `Cannot use the network configuration of ${origin}`,
      { cause },
    );
  }
}

/**
 * The launcher for the socket that the configuration names; undefined in a
 * build that has none.
 */
function findLauncher(wanted: Wanted): Program | undefined {
  const socket = socketOf(wanted);
  const template = embeddedLauncher();
  if (template === undefined) return undefined;
  return launcherProgram(launcherFor(template, socket));
}

/** The programs of the plugin, each complete before it takes its place. */
async function installPlugin(
  request: InstallRequest,
  { programs, signal }: {
    readonly programs: PluginPrograms;
    readonly signal: AbortSignal;
  },
): Promise<PluginPlan["files"]> {
  const { steps, files } = await planPlugin(request, programs);
  await applySteps(steps, { signal, dryRun: request.dryRun });
  return files;
}
