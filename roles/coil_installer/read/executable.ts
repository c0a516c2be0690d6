import { attempt, InstallError } from "../base/errors.ts";
import { findSocketField, socketField } from "../base/front.ts";
import { machineOf } from "../base/machine.ts";
import { executableProgram, type Program, readStart } from "../base/program.ts";

/** The file that this process runs from, also when its name is gone. */
const RUNNING = "/proc/self/exe";

export interface Executable {
  readonly program: Program;
  /** Whether it takes calls to coild before it starts a JavaScript runtime. */
  readonly hasFront: boolean;
}

/**
 * Finds the executable to install: the one at the path, or without a path the
 * running one. Its front calls coild at the socket.
 *
 * @throws {InstallError} when it would not run on this node, or not find coild
 */
export async function findExecutable(
  path: string,
  { socket }: { readonly socket: string },
): Promise<Executable> {
  const bytes = socketField(socket);
  if (path === "" && !isOneFile()) {
    throw new InstallError(
      "Cannot install the running program: it runs from source; build it (deno task build) and pass the file with --coil-path",
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
          machine ?? "not a Linux executable"
        }, and this node needs ${Deno.build.arch}; use the image for this architecture`,
      );
    }
    const at = await findSocketField(file);
    const patch = at === undefined ? undefined : { at, bytes };
    const program = executableProgram(source, { sizeBytes: size, patch });
    return { program, hasFront: patch !== undefined };
  });
}

/** Whether the process runs from one file that holds all of it: deploy/executable/README.md. */
function isOneFile(): boolean {
  return Deno.build.standalone || Deno.env.has("COIL_ARGV0");
}
