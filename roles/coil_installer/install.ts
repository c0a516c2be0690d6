import { getLogger } from "../../lib/telemetry/mod.ts";
import { parseChainEntry } from "./chain.ts";
import { InstallError } from "./errors.ts";
import {
  compareInstalled,
  type ExecutableSource,
  findSource,
} from "./executable.ts";
import { ensureDirectory, lockDirectories } from "./host_directory.ts";
import { installConfig, type Outcome, untilTarget } from "./install_config.ts";
import { NetworkListError, parseWantedList } from "./network_list.ts";
import { executablePath, type InstallRequest } from "./request.ts";
import { applySteps, type Step } from "./steps.ts";
import type { Wanted } from "./target.ts";

const EXECUTABLE_MODE = 0o755;

const log = getLogger("installer");

/**
 * Makes the node have the executable, then the configuration that names it.
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
  const source = await findSource(request.coilPath);
  const { binDirectory, etcDirectory, dryRun } = request;
  for (const directory of [binDirectory, etcDirectory]) {
    await ensureDirectory(directory, { dryRun });
  }
  if (!dryRun) await untilTarget(request, { wanted, signal });
  using _lock = dryRun
    ? undefined
    : await lockDirectories([binDirectory, etcDirectory], signal);
  const executable = await installExecutable(request, { source, signal });
  const configuration = await installConfig(request, { wanted, signal });
  if (request.prepareEgress && !dryRun) await prepareEgress();
  log.info(dryRun ? "Nothing was changed" : "Installed", {
    executable: { path: executablePath(request), state: executable },
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

async function installExecutable(
  request: InstallRequest,
  { source, signal }: {
    readonly source: ExecutableSource;
    readonly signal: AbortSignal;
  },
): Promise<Outcome> {
  const path = executablePath(request);
  const state = await compareInstalled(path, source);
  const steps: Step[] = [];
  if (state.kind !== "same") {
    steps.push({ kind: "copyExecutable", path, source });
  } else if (state.mode !== EXECUTABLE_MODE) {
    steps.push({ kind: "setMode", path, mode: EXECUTABLE_MODE });
  }
  if (state.kind === "different") {
    log.info("Replacing another executable", { path, found: state.found });
  }
  await applySteps(steps, { signal, dryRun: request.dryRun });
  return steps.length === 0 ? "unchanged" : "changed";
}
