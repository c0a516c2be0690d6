// The kernel's notifications taken from a running process, and given back: what
// its work costs without them is measured on the same process.

/** Of `<linux/netlink.h>`: options of a socket, for a multicast group. */
const [ADD_MEMBERSHIP, DROP_MEMBERSHIP] = [1, 2];

/** Changes groups of another process' sockets: pidfd_open(2), pidfd_getfd(2), setsockopt(2) with SOL_NETLINK. */
const CHANGE = `use strict;
my ($option, $pid, @members) = @ARGV;
my $pidfd = syscall(434, 0 + $pid, 0);
die "pidfd_open: $!" if $pidfd < 0;
for my $member (@members) {
  my ($fd, $group) = split /:/, $member;
  my $copy = syscall(438, $pidfd, 0 + $fd, 0);
  die "pidfd_getfd: $!" if $copy < 0;
  open(my $socket, "+<&=", $copy) or die "open: $!";
  setsockopt($socket, 270, 0 + $option, pack("i", $group)) or die "setsockopt: $!";
}`;

/** A netlink socket of a process, and one of its multicast groups. */
interface Membership {
  readonly fd: number;
  readonly group: number;
}

/** By what a process hears the kernel. */
export class Ears {
  readonly #pid: number;
  readonly #members: readonly Membership[];

  /** @throws {Error} when the process hears nothing */
  constructor(pid: number) {
    this.#pid = pid;
    this.#members = membershipsOf(pid);
    if (this.#members.length === 0) {
      throw new Error(`Cannot deafen process ${pid}: it hears nothing`);
    }
  }

  /** Has the process hear the kernel, or not. @throws {Error} when that is not so afterwards */
  async hear(isHeard: boolean): Promise<void> {
    const option = isHeard ? ADD_MEMBERSHIP : DROP_MEMBERSHIP;
    const members = this.#members.map(({ fd, group }) => `${fd}:${group}`);
    const { success, stderr } = await new Deno.Command("perl", {
      args: ["-e", CHANGE, `${option}`, `${this.#pid}`, ...members],
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
    const now = membershipsOf(this.#pid).length;
    const wanted = isHeard ? members.length : 0;
    if (now === wanted) return;
    throw new Error(`Process ${this.#pid} is in ${now} groups, not ${wanted}`);
  }
}

/** The first 32 groups of each netlink socket that a process has in its network namespace (/proc/PID/net/netlink). */
function membershipsOf(pid: number): Membership[] {
  const table = Deno.readTextFileSync(`/proc/${pid}/net/netlink`);
  const groups = new Map(
    table.trim().split("\n").slice(1).map((line) => line.trim().split(/\s+/))
      .map((
        fields,
      ) => [`socket:[${fields.at(-1)}]`, parseInt(fields[3] ?? "", 16)]),
  );
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].flatMap(({ name }) => {
    const mask = groups.get(linkOf(`/proc/${pid}/fd/${name}`)) ?? 0;
    return Array.from({ length: 32 }, (_, i) => i + 1)
      .filter((group) => (mask >>> (group - 1)) & 1)
      .map((group) => ({ fd: Number(name), group }));
  });
}

/** What a descriptor is of; "" when it was closed just now. */
function linkOf(path: string): string {
  try {
    return Deno.readLinkSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}
