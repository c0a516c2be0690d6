import { getLogger } from "../../lib/telemetry/mod.ts";
import {
  type Notice,
  noticesOf,
  type Others,
  planChain,
  planConfig,
} from "./config_plan.ts";
import { ChangedMeanwhileError, InstallError } from "./errors.ts";
import {
  compareInstalled,
  type ExecutableSource,
  findSource,
} from "./executable.ts";
import {
  ensureDirectory,
  lockDirectories,
  readConfigs,
} from "./host_directory.ts";
import { withNote } from "./merge.ts";
import {
  type NetworkList,
  NetworkListError,
  parseWantedList,
  PLUGIN,
  typesOf,
} from "./network_list.ts";
import { askVersions } from "./plugins.ts";
import { examine } from "./situation.ts";
import { applySteps, type Step } from "./steps.ts";
import { negotiateVersions } from "./versions.ts";

/** Where things are to be on the host. */
export interface HostPlaces {
  /** Directory of network configurations. */
  readonly etcDirectory: string;
  /** Name of our file in there. */
  readonly confName: string;
  /** Directory of plugins' executables. */
  readonly binDirectory: string;
}

/** What to install. */
export interface InstallRequest extends HostPlaces {
  /** The executable; empty for the running one. */
  readonly coilPath: string;
  /** The network configuration. */
  readonly netconf: string;
  /** File with the network configuration, unless `netconf` has it. */
  readonly netconfFile: string;
  readonly others: Others;
  readonly dryRun: boolean;
}

const EXECUTABLE_MODE = 0o755;

/** How often a configuration is planned again because another tool changed it meanwhile. */
const MAX_PLANS = 10;

const log = getLogger("installer");

/** Path of the installed plugin. */
export function executablePath({ binDirectory }: HostPlaces): string {
  return `${binDirectory}/${PLUGIN}`;
}

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
  using _lock = dryRun
    ? undefined
    : await lockDirectories([binDirectory, etcDirectory], signal);
  const executable = await installExecutable(request, { source, signal });
  const configuration = await installConfig(request, { wanted, signal });
  log.info(dryRun ? "Nothing was changed" : "Installed", {
    executable: { path: executablePath(request), state: executable },
    configuration: {
      path: `${etcDirectory}/${request.confName}`,
      state: configuration,
    },
  });
}

async function readWanted(
  { netconf, netconfFile }: InstallRequest,
): Promise<NetworkList> {
  if (netconf === "" && netconfFile === "") {
    throw new InstallError(
      "Cannot install without a network configuration: set CNI_NETCONF or CNI_NETCONF_FILE (--netconf, --netconf-file)",
    );
  }
  const origin = netconf !== ""
    ? "CNI_NETCONF (--netconf)"
    : `the file "${netconfFile}"`;
  try {
    return parseWantedList(netconf || await Deno.readTextFile(netconfFile));
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

/** Whether anything had to be done. */
type Outcome = "unchanged" | "changed";

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

async function installConfig(
  request: InstallRequest,
  { wanted, signal }: {
    readonly wanted: NetworkList;
    readonly signal: AbortSignal;
  },
): Promise<Outcome> {
  const plugins = new PluginVersions(request, signal);
  for (let plan = 1;; plan++) {
    try {
      return await installConfigOnce(request, { wanted, plugins, signal });
    } catch (error) {
      if (!(error instanceof ChangedMeanwhileError)) throw error;
      if (plan >= MAX_PLANS) {
        throw new InstallError(
          `Cannot write the network configuration: another tool keeps changing it; stop that tool, or try again`,
          { cause: error },
        );
      }
      log.info("Planning again: another tool changed the configuration", {
        directory: request.etcDirectory,
      });
    }
  }
}

async function installConfigOnce(
  request: InstallRequest,
  { wanted, plugins, signal }: {
    readonly wanted: NetworkList;
    readonly plugins: PluginVersions;
    readonly signal: AbortSignal;
  },
): Promise<Outcome> {
  const { confName: name, etcDirectory: directory, others, dryRun } = request;
  const situation = examine(await readConfigs(directory), name);
  const { list, notices, isLossy } = planChain(wanted, situation);
  const types = typesOf(list);
  const { json, leftOut } = negotiateVersions(list, await plugins.ask(types));
  const steps = planConfig({
    directory,
    name,
    json: withNote({ ...list, json }, wanted),
    isLossy,
    others,
  }, situation);
  await applySteps(steps, { signal, dryRun });
  report([...notices, ...noticesOf(situation, { others, directory })]);
  if (Object.keys(leftOut).length > 0) {
    log.warn(
      "Leaving out versions of the CNI specification that plugins of the chain lack",
      { versions: leftOut },
    );
  }
  return steps.length === 0 ? "unchanged" : "changed";
}

function report(notices: readonly Notice[]): void {
  for (const { level, message, fields } of notices) log[level](message, fields);
}

/** What the plugins beside ours support; each is asked once. */
class PluginVersions {
  readonly #request: InstallRequest;
  readonly #signal: AbortSignal;
  readonly #known = new Map<string, readonly string[]>();
  readonly #asked = new Set<string>();

  constructor(request: InstallRequest, signal: AbortSignal) {
    this.#request = request;
    this.#signal = signal;
  }

  /** Versions by plugin, without those that do not answer. */
  async ask(
    types: readonly string[],
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    for (const type of types) {
      if (this.#asked.has(type)) continue;
      this.#asked.add(type);
      const path = `${this.#request.binDirectory}/${type}`;
      const versions = await askVersions(path, this.#signal);
      if (versions !== undefined) this.#known.set(type, versions);
      else if (!(this.#request.dryRun && type === PLUGIN)) {
        log.warn(
          "A plugin of the chain is not there or does not answer: unless the runtime has it in another directory, no pod will start",
          { plugin: type, path },
        );
      }
    }
    return this.#known;
  }
}
