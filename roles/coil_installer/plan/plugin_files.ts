import { type Program, PROGRAM_MODE } from "../base/program.ts";
import type {
  FormerExecutable,
  InstalledState,
  PluginLink,
} from "../read/installed.ts";
import { DISABLED_SUFFIX, type Others } from "./config_plan.ts";
import {
  coordinatorPath,
  formerPath,
  type HostPlaces,
  pluginPath,
} from "./request.ts";
import type { Step } from "./step.ts";

/** The plugin's files on the node. */
export interface InstalledPlugin {
  readonly plugin: InstalledState;
  readonly former: FormerExecutable;
}

/**
 * Plans the plugin's file. Former versions had two: a launcher, and an
 * executable that it calls. The second goes when nothing calls it any longer; calls
 * that are under way find a link to the plugin, which the next run removes.
 */
export function planPlugin(
  places: HostPlaces,
  { program, installed: { plugin, former } }: {
    readonly program: Program;
    readonly installed: InstalledPlugin;
  },
): readonly Step[] {
  const [path, second] = [pluginPath(places), formerPath(places)];
  const steps: Step[] = [];
  const isPair = former === "executable";
  if (plugin.kind !== "same") {
    const step = { kind: "installProgram", path, program } as const;
    steps.push(isPair ? { ...step, former: second } : step);
  } else {
    if (plugin.mode !== PROGRAM_MODE) {
      steps.push({ kind: "setMode", path, mode: PROGRAM_MODE });
    }
    // An interrupted run has replaced the launcher, which may still be running.
    if (isPair) steps.push({ kind: "link", path: second });
  }
  if (former === "link") steps.push({ kind: "remove", path: second });
  return steps;
}

/** Plans the link for the plugin `coordinator`; another program makes way for it only where it is to. */
export function planCoordinator(
  places: HostPlaces,
  { found, others }: { readonly found: PluginLink; readonly others: Others },
): readonly Step[] {
  const path = coordinatorPath(places);
  if (found === "ours" || found === "foreign" && others === "keep") return [];
  const to = path + DISABLED_SUFFIX;
  return [
    ...found === "foreign" ? [{ kind: "rename", path, to } as const] : [],
    { kind: "link", path },
  ];
}

/** Plans to take the plugin away: what is called before what it calls. The program that had made way comes back. */
export function planPluginRemoval(
  places: HostPlaces,
  { plugin, former, coordinator, hasDisabled }: {
    /** Whether there is one. */
    readonly plugin: boolean;
    readonly former: FormerExecutable;
    readonly coordinator: PluginLink;
    /** Whether another `coordinator` has made way. */
    readonly hasDisabled: boolean;
  },
): readonly Step[] {
  const steps: Step[] = [];
  const path = coordinatorPath(places);
  if (hasDisabled && coordinator !== "foreign") {
    steps.push({ kind: "rename", path: path + DISABLED_SUFFIX, to: path });
  } else if (coordinator === "ours") steps.push({ kind: "remove", path });
  if (plugin) steps.push({ kind: "remove", path: pluginPath(places) });
  if (former === "executable" || former === "link") {
    steps.push({ kind: "remove", path: formerPath(places) });
  }
  return steps;
}
