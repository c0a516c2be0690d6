import { getLogger } from "../../../lib/telemetry/mod.ts";

const log = getLogger("setup");

/**
 * The files by which callers find this process, as they were when it began to
 * listen. Once one was removed or replaced, no call comes, or another coild can
 * start beside this one; a new start helps.
 */
export class SocketFiles {
  readonly #inodes = new Map<string, number | null>();

  /** Remembers the files that are there. @throws {Deno.errors.NotFound} when one is not */
  add(paths: readonly string[]): void {
    for (const path of paths) this.#inodes.set(path, Deno.lstatSync(path).ino);
  }

  /** Whether callers find this process yet. */
  get isEmpty(): boolean {
    return this.#inodes.size === 0;
  }

  /** For health checks: the first file that is another one now, or is gone. */
  check(): true | string {
    for (const [path, inode] of this.#inodes) {
      if (inodeOf(path) === inode) continue;
      // The kubelet's Event has only the status of the answer.
      log.error("File was removed or replaced; a restart makes it again", {
        path,
      });
      return `"${path}" was removed or replaced: plugins do not reach this process`;
    }
    return true;
  }
}

function inodeOf(path: string): number | null | undefined {
  try {
    return Deno.lstatSync(path).ino;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
