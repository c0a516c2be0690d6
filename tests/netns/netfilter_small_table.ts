// A small table, and what tests of tables begin with.
import { Address } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { NetfilterSocket, nft, type NftTable } from "../../lib/netlink/mod.ts";
import { type TempNetns, tempNetns } from "./testing.ts";

/** Four addresses from 10.0.0.1 on. */
export const ADDRESSES: readonly Address[] = [1, 2, 3, 4].map((n) =>
  Address.parse(`10.0.0.${n}`)
);

/** A small table: a set with so many of the addresses, and a rule that looks it up. */
export function smallTable(elements: readonly Address[]): NftTable {
  return {
    family: "inet",
    name: "small",
    counters: ["seen"],
    sets: [{
      name: "friends",
      key: ["ipv4_addr"],
      elements: elements.map((address) => [address]),
    }],
    chains: [{
      name: "incoming",
      type: "filter",
      hook: "input",
      priority: 0,
      policy: "accept",
      rules: [
        nft.rule([nft.inSet(["ip saddr"], "friends"), nft.accept()]),
        nft.rule([nft.counter("seen"), nft.accept()], { comment: "others" }),
      ],
    }],
  };
}

/** The table with the numbers that the kernel gave its parts: they change when a part is recreated. */
export function handles(temp: TempNetns, table: string): Promise<string> {
  return temp.exec("nft", "-a", "-t", "list", "table", "inet", table);
}

/** A namespace with a socket in it. */
export async function setup(): Promise<
  AsyncDisposableStack & {
    readonly temp: TempNetns;
    readonly socket: NetfilterSocket;
  }
> {
  const stack = new AsyncDisposableStack();
  const temp = stack.use(await tempNetns("nft"));
  const netns = stack.use(Netns.open(temp.path));
  const socket = stack.use(NetfilterSocket.open({ netns }));
  return Object.assign(stack, { temp, socket });
}
