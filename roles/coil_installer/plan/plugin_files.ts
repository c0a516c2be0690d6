import { getLogger } from "../../../lib/telemetry/mod.ts";
import { attempt, InstallError } from "../base/errors.ts";
import { type Program, PROGRAM_MODE } from "../base/program.ts";
import { compareInstalled } from "../read/installed.ts";
import { executablePath, type HostPlaces, pluginPath } from "./request.ts";
import type { Outcome, Step } from "./step.ts";

const log = getLogger("installer");

/** What the plugin is made of: alone the executable is the plugin itself. */
export interface PluginPrograms {
  readonly executable: Program;
  /** A small program that calls coild, or else the executable beside it. */
  readonly launcher?: Program | undefined;
}

/** The steps for one file, and what they come to. */
interface FilePlan {
  readonly steps: readonly Step[];
  readonly file: PluginFile;
}

/** A file of the plugin, and whether anything has to be done about it. */
export interface PluginFile {
  readonly path: string;
  readonly state: Outcome;
}

/** The steps that give a node the plugin. */
export interface PluginPlan {
  readonly steps: readonly Step[];
  readonly files: Readonly<Partial<Record<Program["name"], PluginFile>>>;
}

/**
 * Plans the plugin's files. At every moment between the steps the plugin
 * works: the launcher comes after the executable that it calls, and an
 * executable that nothing calls any more goes at the end.
 *
 * @throws {InstallError} when something else is in a file's place
 */
export async function planPlugin(
  places: HostPlaces,
  { executable, launcher }: PluginPrograms,
): Promise<PluginPlan> {
  const [plugin, beside] = [pluginPath(places), executablePath(places)];
  if (launcher === undefined) {
    const { steps, file } = await planFile(plugin, executable);
    return {
      steps: [...steps, ...await planRemovalOf(beside)],
      files: { executable: file },
    };
  }
  const first = await planFile(beside, executable);
  const second = await planFile(plugin, launcher);
  return {
    steps: [...first.steps, ...second.steps],
    files: { executable: first.file, launcher: second.file },
  };
}

async function planFile(path: string, program: Program): Promise<FilePlan> {
  const state = await compareInstalled(path, program);
  if (state.kind === "different") {
    log.info("Replacing another executable", { path, found: state.found });
  }
  const steps: Step[] = [];
  if (state.kind !== "same") {
    steps.push({ kind: "installProgram", path, program });
  } else if (state.mode !== PROGRAM_MODE) {
    steps.push({ kind: "setMode", path, mode: PROGRAM_MODE });
  }
  const isUnchanged = steps.length === 0;
  return {
    steps,
    file: { path, state: isUnchanged ? "unchanged" : "changed" },
  };
}

/**
 * Plans to take the plugin away: what is called before what it calls.
 *
 * @throws {InstallError} when something else is in a file's place
 */
export async function planPluginRemoval(
  places: HostPlaces,
): Promise<readonly Step[]> {
  return [
    ...await planRemovalOf(pluginPath(places)),
    ...await planRemovalOf(executablePath(places)),
  ];
}

async function planRemovalOf(path: string): Promise<readonly Step[]> {
  return await attempt(`look at "${path}"`, async () => {
    try {
      if ((await Deno.lstat(path)).isDirectory) {
        throw new InstallError(
          `Cannot remove "${path}": it is a directory, not the executable`,
        );
      }
      return [{ kind: "remove", path }];
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  });
}
