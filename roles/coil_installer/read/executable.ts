import { attempt, InstallError } from "../base/errors.ts";
import { hasLauncherSize, isLauncher } from "../base/launcher.ts";
import { machineOf } from "../base/machine.ts";
import { executableProgram, type Program, readStart } from "../base/program.ts";

/** The file that this process runs from, also when its name is gone. */
const RUNNING = "/proc/self/exe";

/**
 * Finds the executable to install: the one at the path, or without a path the
 * running one.
 *
 * @throws {InstallError} when it would not run on this node
 */
export async function findExecutable(path: string): Promise<Program> {
  if (path === "" && !isOneFile()) {
    throw new InstallError(
      "Cannot install the running program: it runs from source; build it (deno task build) and give the file with --coil-path",
    );
  }
  const source = path === "" ? RUNNING : path;
  return await attempt(`read the executable "${source}"`, async () => {
    using file = await Deno.open(source);
    const { isFile, size } = await file.stat();
    if (!isFile) {
      throw new InstallError(
        `Cannot install "${source}": it is not a regular file`,
      );
    }
    const machine = machineOf(await readStart(file));
    if (machine !== Deno.build.arch) {
      throw new InstallError(
        `Cannot install "${source}": it is ${
          machine ?? "no Linux executable"
        }, and this node needs ${Deno.build.arch}; use the image for this architecture`,
      );
    }
    await refuseLauncher(source, size);
    return executableProgram(source, { sizeBytes: size });
  });
}

/** As the executable it would call itself, without an end. */
async function refuseLauncher(path: string, sizeBytes: number): Promise<void> {
  if (!hasLauncherSize(sizeBytes)) return;
  if (!isLauncher(await Deno.readFile(path))) return;
  throw new InstallError(
    `Cannot install "${path}": it is only the launcher of an executable; give the executable, "coil-executable" beside it`,
  );
}

/** Whether the process runs from one file that holds all of it: deploy/executable/README.md. */
function isOneFile(): boolean {
  return Deno.build.standalone || Deno.env.has("COIL_ARGV0");
}
