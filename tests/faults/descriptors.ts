/** What a process has open, in words that two looks can be compared by. */

/** Files of `/proc/PID/net`, with the column of a socket's inode and the columns that say whose it is. */
const TABLES = [
  { name: "tcp", inode: 9, about: [2, 3] },
  { name: "tcp6", inode: 9, about: [2, 3] },
  { name: "unix", inode: 6, about: [] },
  { name: "netlink", inode: 9, about: [1, 3] },
];

/** A line for each descriptor: "file", "unix", "net" for a network namespace, "netlink 0 00000000", "anon_inode:[eventpoll]". */
export async function descriptorsOf(pid: number): Promise<string[]> {
  const sockets = await socketsOf(pid);
  const found: string[] = [];
  for await (const { name } of Deno.readDir(`/proc/${pid}/fd`)) {
    const target = await Deno.readLink(`/proc/${pid}/fd/${name}`)
      .catch(() => undefined); // closed since it was listed
    if (target === undefined) continue;
    const [kind, inode = ""] = target.split(/:\[|\]/);
    const text = kind === "socket" ? sockets.get(inode) : undefined;
    found.push(text ?? wordOf(target));
  }
  return found;
}

function wordOf(target: string): string {
  if (target.startsWith("/")) return "file";
  return target.replace(/^(socket|pipe|net):.*/, "$1");
}

/** What of the second look is not in the first. */
export function moreThan(
  before: readonly string[],
  now: readonly string[],
): string[] {
  const left = [...before];
  return now.filter((one) => {
    const at = left.indexOf(one);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

async function socketsOf(pid: number): Promise<Map<string, string>> {
  const sockets = new Map<string, string>();
  for (const { name, inode, about } of TABLES) {
    const text = await Deno.readTextFile(`/proc/${pid}/net/${name}`);
    for (const line of text.split("\n").slice(1)) {
      const fields = line.trim().split(/\s+/);
      const key = fields[inode];
      if (key === undefined) continue;
      const words = about.map((column) => fields[column] ?? "");
      sockets.set(key, [name, ...words].join(" ").trim());
    }
  }
  return sockets;
}
