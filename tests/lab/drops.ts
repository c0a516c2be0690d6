/** Packets that the machine's kernel has dropped, in whichever network namespace: labs that run beside each other share these bounds. */
export interface Drops {
  /** Of a processor's queue of received packets, `net.core.netdev_max_backlog`. */
  readonly backlog: number;
  /** Of neighbours: more at once than `net.ipv4.neigh.default.gc_thresh3`, or that of IPv6. */
  readonly neighbours: number;
}

/** Reads how many there were since the machine has started. */
export async function readDrops(): Promise<Drops> {
  const rows = async (file: string) =>
    (await Deno.readTextFile(`/proc/net/${file}`)).trim().split("\n")
      .map((row) => row.trim().split(/ +/));
  // A row for each processor, its second number is of packets dropped.
  const backlog = (await rows("softnet_stat"))
    .reduce((sum, [, dropped = "0"]) => sum + parseInt(dropped, 16), 0);
  let neighbours = 0;
  for (const table of ["arp_cache", "ndisc_cache"]) {
    const [head = [], ...counts] = await rows(`stat/${table}`);
    const at = head.indexOf("table_fulls");
    for (const row of counts) neighbours += parseInt(row[at] ?? "0", 16);
  }
  return { backlog, neighbours };
}
