import { writeAll } from "../../../lib/async/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import { replaceFile, syncDirectory } from "./atomic_file.ts";
import { attempt, ChangedMeanwhileError, ifThere } from "../base/errors.ts";
import { CONFIG_MODE, type Step } from "../plan/step.ts";
import { linkToPlugin, replacePair } from "./former.ts";
import { installProgram } from "./install_program.ts";

const log = getLogger("installer");

/** The log messages for a step that was done, and for one that would be. */
const MESSAGES = {
  installProgram: ["Copied the executable", "Would copy the executable"],
  writeConfig: [
    "Wrote the network configuration",
    "Would write the network configuration",
  ],
  setMode: ["Set the mode of a file", "Would set the mode of a file"],
  keepCopy: ["Kept a copy of a file", "Would keep a copy of a file"],
  link: [
    "Placed a link to the plugin",
    "Would place a link to the plugin",
  ],
  rename: ["Renamed a file", "Would rename a file"],
  remove: ["Removed a file", "Would remove a file"],
} as const;

export interface ApplyOptions {
  readonly signal: AbortSignal;
  /** Only logs what would be done. */
  readonly dryRun: boolean;
}

/**
 * Does the steps, one after the other.
 *
 * @throws {InstallError} when one cannot be done; those after it are not tried
 * @throws {ChangedMeanwhileError} when a configuration is not what the plan saw
 */
export async function applySteps(
  steps: readonly Step[],
  { signal, dryRun }: ApplyOptions,
): Promise<void> {
  for (const step of steps) {
    signal.throwIfAborted();
    if (!dryRun) await applyStep(step, signal);
    log.info(MESSAGES[step.kind][dryRun ? 1 : 0], fieldsOf(step));
  }
}

async function applyStep(step: Step, signal: AbortSignal): Promise<void> {
  const { path } = step;
  switch (step.kind) {
    case "installProgram":
      return step.former === undefined
        ? await installProgram(step.program, { path, signal })
        : await replacePair(step.program, {
          path,
          former: step.former,
          signal,
        });
    case "writeConfig":
      return await writeConfig(step);
    case "setMode":
      return await attempt(
        `set the mode of "${path}"`,
        () => Deno.chmod(path, step.mode),
      );
    case "keepCopy":
      return await attempt(`copy "${path}" to "${step.as}"`, async () => {
        const bytes = await Deno.readFile(path);
        await replaceFile(step.as, {
          mode: CONFIG_MODE,
          write: (file) => writeAll(file, bytes),
        });
      });
    case "link":
      return await linkToPlugin(path);
    case "rename":
      return await attempt(`rename "${path}" to "${step.to}"`, async () => {
        await Deno.rename(path, step.to);
        await syncDirectory(path);
      });
    case "remove":
      return await attempt(`remove "${path}"`, async () => {
        await Deno.remove(path);
        await syncDirectory(path);
      });
  }
}

async function writeConfig(
  { path, text, expected }: Extract<Step, { kind: "writeConfig" }>,
): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  await attempt(
    `write the network configuration "${path}"`,
    () =>
      replaceFile(path, {
        mode: CONFIG_MODE,
        write: (file) => writeAll(file, bytes),
        beforeRename: async () => {
          if (await ifThere(Deno.readTextFile(path)) === expected) return;
          throw new ChangedMeanwhileError(
            `"${path}" was changed by another program`,
          );
        },
      }),
  );
}

function fieldsOf(step: Step): Record<string, unknown> {
  const { path } = step;
  switch (step.kind) {
    case "installProgram":
      return { path, sizeBytes: step.program.sizeBytes };
    case "setMode":
      return { path, mode: step.mode.toString(8).padStart(4, "0") };
    case "keepCopy":
      return { path, copy: step.as };
    case "rename":
      return { path, to: step.to };
    case "writeConfig":
    case "link":
    case "remove":
      return { path };
  }
}
