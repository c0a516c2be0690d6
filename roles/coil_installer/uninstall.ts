import { getLogger } from "../../lib/telemetry/mod.ts";
import { DISABLED_SUFFIX } from "./plan/config_plan.ts";
import { lockDirectories } from "./apply/host_directory.ts";
import { noteOf, typesOf } from "./base/network_list.ts";
import { planPluginRemoval } from "./plan/plugin_files.ts";
import {
  coordinatorPath,
  formerPath,
  type HostPlaces,
  pluginPath,
} from "./plan/request.ts";
import { examineFormer, examineLink, isInstalled } from "./read/installed.ts";
import { type ConfigFile, examine, type Situation } from "./read/situation.ts";
import { DEFAULT_CONF_NAME } from "./plan/target.ts";
import { applySteps } from "./apply/steps.ts";
import type { Step } from "./plan/step.ts";
import { exists, readConfigs } from "./read/directory.ts";

/** Files to remove. */
export interface UninstallRequest extends HostPlaces {
  readonly keepConfig: boolean;
  readonly keepExecutable: boolean;
  readonly dryRun: boolean;
}

const log = getLogger("installer");

/**
 * Removes the configuration, then the plugin that it names, and gives the configurations that had made way their names back.
 *
 * @throws {InstallError} when something cannot be removed
 */
export async function uninstall(
  request: UninstallRequest,
  signal: AbortSignal,
): Promise<void> {
  const { binDirectory, etcDirectory, dryRun } = request;
  const confName = request.confName ?? DEFAULT_CONF_NAME;
  const present: string[] = [];
  for (const directory of [binDirectory, etcDirectory]) {
    if (await exists(directory)) present.push(directory);
  }
  using _lock = dryRun ? undefined : await lockDirectories(present, signal);
  const files = await readConfigs(etcDirectory);
  const situation = examine(files, confName);
  const steps = [
    ...(request.keepConfig
      ? []
      : planRemoval(request, { files, confName, situation })),
    ...(request.keepExecutable
      ? []
      : planPluginRemoval(request, await lookAtPlugin(request))),
  ];
  await applySteps(steps, { signal, dryRun });
  report(request, situation);
  log.info(dryRun ? "Nothing was changed" : "Uninstalled", {
    changes: dryRun ? 0 : steps.length,
  });
}

async function lookAtPlugin(places: HostPlaces) {
  const coordinator = coordinatorPath(places);
  return {
    plugin: await isInstalled(pluginPath(places)),
    former: await examineFormer(formerPath(places)),
    coordinator: await examineLink(coordinator),
    hasDisabled: await examineLink(coordinator + DISABLED_SUFFIX) !== "absent",
  };
}

/** First those that made way come back, so that the node always has a configuration if it can. */
function planRemoval(
  { etcDirectory }: UninstallRequest,
  { files, confName, situation }: {
    readonly files: readonly ConfigFile[];
    readonly confName: string;
    readonly situation: Situation;
  },
): readonly Step[] {
  const isOurs = situation.own?.kind === "ours";
  const ours = [
    ...(isOurs ? [confName] : []),
    ...situation.earlier.map(({ name }) => name),
  ];
  const names = new Set(files.map(({ name }) => name));
  const pathOf = (name: string) => `${etcDirectory}/${name}`;
  const restored = files.flatMap(({ name }): readonly string[] => {
    if (!name.endsWith(DISABLED_SUFFIX)) return [];
    const original = name.slice(0, -DISABLED_SUFFIX.length);
    return !names.has(original) || ours.includes(original) ? [original] : [];
  });
  return [
    // A rename replaces ours where the name is the same.
    ...restored.map((name): Step => ({
      kind: "rename",
      path: pathOf(name) + DISABLED_SUFFIX,
      to: pathOf(name),
    })),
    ...ours.filter((name) => !restored.includes(name))
      .map((name): Step => ({ kind: "remove", path: pathOf(name) })),
  ];
}

function report(request: UninstallRequest, situation: Situation): void {
  const { own, earlier, allies } = situation;
  const { etcDirectory: directory } = request;
  const file = request.confName ?? DEFAULT_CONF_NAME;
  if (own?.kind === "malformed") {
    log.warn("Kept a file: it is not a network configuration of coil", {
      directory,
      file,
      reason: own.reason,
    });
  }
  if (request.keepConfig && !request.keepExecutable && own?.kind === "ours") {
    log.warn(
      "The network configuration stays but its executable is removed: no pod can start on this node",
      { directory, file },
    );
  }
  if (!request.keepConfig) {
    const lists = [...(own?.kind === "ours" ? [own.list] : [])]
      .concat(earlier.map(({ list }) => list));
    const added = lists.flatMap((list) => {
      const ours = noteOf(list)?.plugins ?? [];
      return typesOf(list).filter((type) => !ours.includes(type));
    });
    if (added.length > 0) {
      log.warn("Removed plugins that other tools had added to the chain", {
        plugins: [...new Set(added)],
      });
    }
  }
  if (allies.length > 0) {
    log.warn("Other network configurations still use coil", {
      directory,
      files: allies,
    });
  }
}
