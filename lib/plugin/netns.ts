/** Whether `path` is the network namespace that this process is in; false where it cannot be read. @throws {Error} when the file system fails otherwise */
export function isOwnNetns(path: string): boolean {
  try {
    const theirs = Deno.statSync(path);
    const own = Deno.statSync("/proc/self/ns/net");
    return theirs.ino === own.ino && theirs.dev === own.dev;
  } catch (error) {
    // For DEL it may be gone already; for ADD the daemon says what is wrong.
    // Nor is it ours where not even coild may look.
    const isOutOfReach = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.NotADirectory ||
      error instanceof Deno.errors.PermissionDenied;
    if (isOutOfReach) return false;
    throw error;
  }
}
