// Tables of nftables in network namespaces: that of a client, and those that tests add.
import { Netns } from "../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  type NftTable,
  prepareTable,
} from "../../lib/netlink/mod.ts";
import { inNetns } from "../lab/mod.ts";
import type { Client } from "./e2e_cluster.ts";

/** The nft table of the client's pod, without what its counters count. */
export function tableOf({ pod }: Client): Promise<string> {
  const list = ["--stateless", "list", "table", "inet", "coil"];
  return inNetns(pod.sandbox.netns, "nft", list);
}

/** A table of the family inet, as text. */
export interface NftScript {
  readonly name: string;
  /** All of it, as `nft -f` reads it. */
  readonly text: string;
}

/** Adds a table. Returns what removes it. */
export async function addTable(
  netns: string,
  { name, text }: NftScript,
): Promise<() => Promise<void>> {
  await inNetns(netns, "sh", ["-c", `nft -f - <<END\n${text}\nEND`]);
  return async () => {
    await inNetns(netns, "nft", ["delete", "table", "inet", name]);
  };
}

/** Adds a table to several namespaces at once. */
export async function addTables(
  namespaces: readonly string[],
  table: NftTable,
): Promise<void> {
  const ready = prepareTable(table);
  await inEach(namespaces, async (socket) => {
    if (await socket.createTable(ready)) return;
    throw new Error(`Cannot add table "${table.name}": it exists`);
  });
}

/** Removes a table from several namespaces at once. */
export async function removeTables(
  namespaces: readonly string[],
  name: string,
): Promise<void> {
  await inEach(namespaces, (socket) => socket.deleteTable(name));
}

/** Works in several namespaces at once: processes of `nft` would come one after the other. */
async function inEach(
  namespaces: readonly string[],
  work: (socket: NetfilterSocket) => Promise<unknown>,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const sockets = namespaces.map((each) => {
    using netns = Netns.open(`/run/netns/${each}`);
    return stack.use(NetfilterSocket.open({ netns }));
  });
  await Promise.all(sockets.map(work));
}
