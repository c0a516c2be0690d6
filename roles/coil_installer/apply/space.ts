import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { attempt, InstallError } from "../base/errors.ts";

/** What else may be written at the same time: configurations, other tools. */
const SLACK_BYTES = 1 << 20;

/**
 * Checks that a file of this size has room where it is to be.
 *
 * @throws {InstallError} when it has not; `action` completes "Cannot …"
 */
export async function requireSpace(
  path: string,
  { bytes, action }: { readonly bytes: number; readonly action: string },
): Promise<void> {
  const directory = dirname(path);
  const { bavail, bsize } = await attempt(
    `ask for the free space of "${directory}"`,
    () => statfs(directory),
  );
  const [needed, free] = [bytes + SLACK_BYTES, bavail * bsize];
  if (free >= needed) return;
  throw new InstallError(
    `Cannot ${action}: it needs ${megabytes(needed)}, and "${directory}" has ${
      megabytes(free)
    } free; free some space; existing files are kept`,
  );
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
