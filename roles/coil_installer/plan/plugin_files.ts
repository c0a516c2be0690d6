import { type Program, PROGRAM_MODE } from "../base/program.ts";
import type {
  FormerExecutable,
  InstalledState,
  PluginLink,
} from "../read/installed.ts";
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
  const isPair = former.kind === "executable";
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
  if (former.kind === "link") {
    steps.push({ kind: "remove", path: second });
  }
  return steps;
}

/** Plans the link for the plugin `coordinator`; what another program has put there stays. */
export function planCoordinator(
  places: HostPlaces,
  found: PluginLink,
): readonly Step[] {
  return found === "absent"
    ? [{ kind: "link", path: coordinatorPath(places) }]
    : [];
}

/** Plans to take the plugin away: what is called before what it calls. */
export function planPluginRemoval(
  places: HostPlaces,
  { plugin, former, coordinator }: {
    /** Whether there is one. */
    readonly plugin: boolean;
    readonly former: FormerExecutable;
    readonly coordinator: PluginLink;
  },
): readonly Step[] {
  const steps: Step[] = [];
  if (coordinator === "ours") {
    steps.push({ kind: "remove", path: coordinatorPath(places) });
  }
  if (plugin) steps.push({ kind: "remove", path: pluginPath(places) });
  if (former.kind === "executable" || former.kind === "link") {
    steps.push({ kind: "remove", path: formerPath(places) });
  }
  return steps;
}
