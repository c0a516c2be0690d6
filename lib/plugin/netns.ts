/** Whether `path` is the network namespace that this process is in; false where it cannot be read. */
export function isOwnNetns(path: string): boolean {
  const own = Deno.statSync("/proc/self/ns/net");
  try {
    const theirs = Deno.statSync(path);
    return theirs.ino === own.ino && theirs.dev === own.dev;
  } catch {
    // The reason does not matter here: for ADD the daemon says what is wrong, and DEL is done by then.
    return false;
  }
}
