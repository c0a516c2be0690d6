/** Size of `sun_path` in `struct sockaddr_un`, less the final NUL: unix(7). */
const MAX_PATH_BYTES = 107;

/**
 * Lets `bind` create a UNIX socket so that it appears at `path` at once with
 * `mode` and takes the place of what an earlier process left there: it is made
 * in a new directory that only this user may enter, and moved.
 *
 * @throws {SocketPathError} when something that is not a socket is at `path`
 */
export async function placeSocket(
  path: string,
  options: {
    readonly mode: number;
    readonly bind: (path: string) => Promise<void>;
  },
): Promise<void> {
  const occupant = await describeOccupant(path);
  if (occupant !== undefined) {
    throw new SocketPathError(
      `Cannot create socket "${path}": ${occupant} is in its place`,
    );
  }
  const directory = await Deno.makeTempDir({
    dir: path.slice(0, path.lastIndexOf("/") + 1) || ".",
    prefix: ".s",
  });
  try {
    const temporary = `${directory}/s`;
    for (const name of [path, temporary]) {
      if (new TextEncoder().encode(name).length > MAX_PATH_BYTES) {
        throw new SocketPathError(
          `Cannot create socket "${path}": its path is too long`,
        );
      }
    }
    await options.bind(temporary);
    await Deno.chmod(temporary, options.mode);
    await Deno.rename(temporary, path);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** A path where no socket can be created. */
export class SocketPathError extends Error {
  override readonly name = "SocketPathError";
}

/** What is at `path`, unless it is nothing or a socket. */
async function describeOccupant(path: string): Promise<string | undefined> {
  try {
    const info = await Deno.lstat(path);
    if (info.isSocket) return undefined;
    if (info.isSymlink) return "a symbolic link";
    if (info.isDirectory) return "a directory";
    return info.isFile ? "a regular file" : "a special file";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
