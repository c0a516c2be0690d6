/**
 * The command line of a program that uses libcni, with a directory as its cache.
 * By itself it is /var/lib/cni for all on a machine: its GC would release what
 * other tests, or the machine's own container runtime, have attached.
 */
export function withCniCache(
  directory: string,
  command: readonly string[],
): readonly [string, ...string[]] {
  const script =
    'mkdir -p /var/lib/cni; mount --bind "$0" /var/lib/cni; exec "$@"';
  return ["unshare", "--mount", "sh", "-euc", script, directory, ...command];
}
