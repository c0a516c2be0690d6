// Tables of nftables in network namespaces: that of a client, and those that tests add.
import { Netns } from "../../lib/linux/mod.ts";
import { NetfilterSocket } from "../../lib/netlink/mod.ts";
import { inNetns } from "../lab/mod.ts";
import type { Client } from "./e2e_cluster.ts";

/** The nft table of the client's pod, without what its counters count. */
export function tableOf({ pod }: Client): Promise<string> {
  const list = ["--stateless", "list", "table", "inet", "coil"];
  return inNetns(pod.sandbox.netns, "nft", list);
}

/** A table of the family inet. */
export interface NftTable {
  readonly name: string;
  /** All of it, as `nft -f` reads it. */
  readonly text: string;
}

/** Adds a table. Returns what removes it. */
export async function addTable(
  netns: string,
  { name, text }: NftTable,
): Promise<() => Promise<void>> {
  await inNetns(netns, "sh", ["-c", `nft -f - <<END\n${text}\nEND`]);
  return async () => {
    await inNetns(netns, "nft", ["delete", "table", "inet", name]);
  };
}

/** Removes a table from several namespaces at once: processes of `nft` would come one after the other. */
export async function removeTables(
  namespaces: readonly string[],
  name: string,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const sockets = namespaces.map((each) => {
    using netns = Netns.open(`/run/netns/${each}`);
    return stack.use(NetfilterSocket.open({ netns }));
  });
  await Promise.all(sockets.map((socket) => socket.deleteTable(name)));
}
