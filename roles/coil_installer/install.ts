import { COORDINATOR_COILD_SOCKET } from "../../lib/names/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import { ensureDirectory, lockDirectories } from "./apply/host_directory.ts";
import { applySteps } from "./apply/steps.ts";
import { InstallError } from "./base/errors.ts";
import { NetworkListError, parseWantedList } from "./base/network_list.ts";
import type { Program } from "./base/program.ts";
import { installConfig, untilTarget } from "./install_config.ts";
import { parseChainEntry } from "./plan/chain.ts";
import { planCoordinator, planPlugin } from "./plan/plugin_files.ts";
import {
  coordinatorPath,
  formerPath,
  type InstallRequest,
  pluginPath,
} from "./plan/request.ts";
import type { Outcome, Step } from "./plan/step.ts";
import { socketOf, type Wanted } from "./plan/target.ts";
import { findExecutable } from "./read/executable.ts";
import {
  compareInstalled,
  examineFormer,
  examineLink,
} from "./read/installed.ts";

const log = getLogger("installer");

const NO_FRONT =
  "The executable was built without a C compiler: a JavaScript runtime starts for each call of the plugin, which takes longer";

/** The plugin's file, and whether anything had to be done about it. */
interface PluginFile {
  readonly path: string;
  readonly state: Outcome;
}

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
  const wanted = request.configures ? await readWanted(request) : undefined;
  const socket = wanted === undefined
    ? COORDINATOR_COILD_SOCKET
    : socketOf(wanted);
  const { program, hasFront } = await findExecutable(request.coilPath, {
    socket,
  });
  if (!hasFront) log.warn(NO_FRONT, { path: request.coilPath });
  const { binDirectory, etcDirectory, dryRun } = request;
  for (const directory of [binDirectory, etcDirectory]) {
    await ensureDirectory(directory, { dryRun });
  }
  if (wanted && !dryRun) await untilTarget(request, { wanted, signal });
  using _lock = dryRun
    ? undefined
    : await lockDirectories([binDirectory, etcDirectory], signal);
  const executable = await installPlugin(request, { program, signal });
  const configuration = wanted &&
    await installConfig(request, { wanted, signal });
  if (request.prepareEgress && !dryRun) await prepareEgress();
  log.info(dryRun ? "Nothing was changed" : "Installed", {
    executable,
    configuration,
  });
}

/** A node whose kernel has no tunnels still gets its network. */
async function prepareEgress(): Promise<void> {
  // No other run needs it.
  const { prepareKernel } = await import("../../lib/egress/mod.ts");
  for (const family of ["ipv4", "ipv6"] as const) {
    try {
      await prepareKernel([family]);
      log.info("The kernel supports egress tunnels", { family });
    } catch (error) {
      log.warn("The kernel does not support egress tunnels", {
        family,
        err: error,
      });
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
      `Cannot use the network configuration from ${origin}`,
      { cause },
    );
  }
}

async function coordinatorSteps(
  request: InstallRequest,
): Promise<readonly Step[]> {
  const path = coordinatorPath(request);
  const found = await examineLink(path);
  const { others } = request;
  if (found === "foreign" && others === "keep") {
    log.warn(
      "Kept another program: its calls do not reach coild. Install with --others=disable to use Coil's",
      { path },
    );
  }
  return planCoordinator(request, { found, others });
}

/** The plugin, complete before it takes its place. */
async function installPlugin(
  request: InstallRequest,
  { program, signal }: {
    readonly program: Program;
    readonly signal: AbortSignal;
  },
): Promise<PluginFile> {
  const path = pluginPath(request);
  const plugin = await compareInstalled(path, program);
  const former = await examineFormer(formerPath(request));
  if (plugin.kind === "different") {
    log.info("Replacing another executable", { path, found: plugin.found });
  }
  const installed = { plugin, former };
  const steps = [
    ...planPlugin(request, { program, installed }),
    ...request.coordinator ? await coordinatorSteps(request) : [],
  ];
  await applySteps(steps, { signal, dryRun: request.dryRun });
  return { path, state: steps.length === 0 ? "unchanged" : "changed" };
}
