import { sleep } from "../../lib/async/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import {
  type Notice,
  noticesOf,
  planChain,
  planConfig,
} from "./plan/config_plan.ts";
import { ChangedMeanwhileError, InstallError } from "./base/errors.ts";
import { withNote } from "./plan/merge.ts";
import { PLUGIN, typesOf } from "./base/network_list.ts";
import { askVersions } from "./read/plugins.ts";
import type { InstallRequest } from "./plan/request.ts";
import { readConfigs } from "./read/directory.ts";
import { examine } from "./read/situation.ts";
import { applySteps } from "./apply/steps.ts";
import type { Outcome } from "./plan/step.ts";
import { resolveTarget, type Wanted } from "./plan/target.ts";
import { negotiateVersions } from "./plan/versions.ts";

/** How often a configuration is planned again because another tool changed it in the meantime. */
const MAX_PLANS = 10;

/** How often to look for another network's configuration, and to say so: 30 s. */
const POLL_MS = 1_000;
const POLLS_PER_RECORD = 30;

const log = getLogger("installer");

/** Waits for the network that we are to be a part of. No lock is held in the meantime. */
export async function untilTarget(
  { etcDirectory, confName }: InstallRequest,
  { wanted, signal }: { readonly wanted: Wanted; readonly signal: AbortSignal },
): Promise<void> {
  for (let polls = 0;; polls++) {
    const files = await readConfigs(etcDirectory);
    const target = resolveTarget(wanted, { files, givenName: confName });
    if (target !== undefined) return;
    if (polls % POLLS_PER_RECORD === 0) {
      log.info(
        "Waiting for another network's configuration to add coil to it",
        { directory: etcDirectory },
      );
    }
    await sleep(POLL_MS, { signal });
  }
}

/** The result for the configuration; undefined in a dry run that would have to wait for another network's. */
type ConfigOutcome =
  | {
    readonly path: string;
    readonly state: Outcome;
    readonly source?: string;
  }
  | undefined;

/**
 * Writes the configuration, with what others added to an earlier one.
 *
 * @throws {InstallError} when it cannot be done; what was there before still is
 */
export async function installConfig(
  request: InstallRequest,
  { wanted, signal }: { readonly wanted: Wanted; readonly signal: AbortSignal },
): Promise<ConfigOutcome> {
  const plugins = new PluginVersions(request);
  for (let plan = 1;; plan++) {
    try {
      return await installConfigOnce(request, { wanted, plugins, signal });
    } catch (error) {
      if (!(error instanceof ChangedMeanwhileError)) throw error;
      if (plan >= MAX_PLANS) {
        throw new InstallError(
          `Cannot write the network configuration: another tool keeps changing it; stop that tool, or retry`,
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
    readonly wanted: Wanted;
    readonly plugins: PluginVersions;
    readonly signal: AbortSignal;
  },
): Promise<ConfigOutcome> {
  const { confName, etcDirectory: directory, others, dryRun } = request;
  const files = await readConfigs(directory);
  const target = resolveTarget(wanted, { files, givenName: confName });
  if (target === undefined) return missingNetwork(request);
  const { name } = target;
  const situation = examine(files, name);
  const { list, notices, isLossy } = planChain(target.list, situation);
  const types = typesOf(list);
  const { json, leftOut } = negotiateVersions(
    list,
    await plugins.ask(types, { signal }),
  );
  const steps = planConfig({
    directory,
    name,
    json: withNote({ ...list, json }, target.list),
    isLossy,
    others,
  }, situation);
  await applySteps(steps, { signal, dryRun });
  report([...notices, ...noticesOf(situation, { others, directory })]);
  if (Object.keys(leftOut).length > 0) {
    log.warn(
      "Omitting CNI versions that plugins of the chain do not support",
      { versions: leftOut },
    );
  }
  const state = steps.length === 0 ? "unchanged" : "changed";
  const { source } = target;
  return { path: `${directory}/${name}`, state, ...(source && { source }) };
}

/** The network that was there a moment ago is gone. */
function missingNetwork({ etcDirectory, dryRun }: InstallRequest): undefined {
  if (!dryRun) {
    throw new InstallError(
      `Cannot chain into another network: its configuration was removed from "${etcDirectory}"; start again`,
    );
  }
  log.info("Would wait for another network's configuration", {
    directory: etcDirectory,
  });
}

function report(notices: readonly Notice[]): void {
  for (const { level, message, fields } of notices) log[level](message, fields);
}

/** CNI versions of the other plugins; each is asked once. */
class PluginVersions {
  readonly #request: InstallRequest;
  readonly #known = new Map<string, readonly string[]>();
  readonly #asked = new Set<string>();

  constructor(request: InstallRequest) {
    this.#request = request;
  }

  /** Versions by plugin, without those that do not answer. */
  async ask(
    types: readonly string[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    for (const type of types) {
      if (this.#asked.has(type)) continue;
      this.#asked.add(type);
      const path = `${this.#request.binDirectory}/${type}`;
      const versions = await askVersions(path, signal);
      if (versions !== undefined) this.#known.set(type, versions);
      else if (!(this.#request.dryRun && type === PLUGIN)) {
        log.warn(
          "A plugin of the chain is missing or does not answer; no pod will start unless the runtime has it in another directory",
          { plugin: type, path },
        );
      }
    }
    return this.#known;
  }
}
