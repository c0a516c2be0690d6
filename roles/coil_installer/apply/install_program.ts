import { writeAll } from "../../../lib/async/mod.ts";
import { attempt, InstallError } from "../base/errors.ts";
import { type Program, PROGRAM_MODE } from "../base/program.ts";
import { askVersions } from "../read/plugins.ts";
import { replaceFile } from "./atomic_file.ts";
import { requireSpace } from "./space.ts";

/**
 * Writes a program. It takes its place when it is whole and has answered as a
 * plugin; until then the earlier one stays in use.
 */
export async function installProgram(
  program: Program,
  { path, signal }: { readonly path: string; readonly signal: AbortSignal },
): Promise<void> {
  const { sizeBytes } = program;
  const action = `copy the executable to "${path}"`;
  await requireSpace(path, { bytes: sizeBytes, action });
  await attempt(action, () =>
    replaceFile(path, {
      mode: PROGRAM_MODE,
      write: (target) => copyBytes(program, { target, signal }),
      beforeRename: async (temporary) => {
        if (await askVersions(temporary, signal) !== undefined) return;
        throw new InstallError(
          `Cannot ${action}: the copy does not run; is the file system mounted noexec, or the executable damaged?`,
        );
      },
    }));
}

async function copyBytes(
  { sizeBytes, chunks }: Program,
  { target, signal }: {
    readonly target: Deno.FsFile;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  let copied = 0;
  for await (const chunk of chunks()) {
    signal.throwIfAborted();
    await writeAll(target, chunk);
    copied += chunk.length;
  }
  if (copied === sizeBytes) return;
  throw new InstallError(
    `Cannot copy the executable: it had ${sizeBytes} bytes, and ${copied} while it was copied`,
  );
}
