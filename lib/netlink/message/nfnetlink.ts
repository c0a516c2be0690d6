import type { MessageWriter } from "./message_writer.ts";

/** struct nfgenmsg of `<linux/netfilter/nfnetlink.h>`: what every netfilter message starts with. */
export const NFGENMSG_SIZE = 4;
/** NFNETLINK_V0. */
const NFNETLINK_V0 = 0;

/** The parts of netfilter that speak netlink, NFNL_SUBSYS_… */
export const NFNL_SUBSYS_CTNETLINK = 1;
export const NFNL_SUBSYS_NFTABLES = 10;

/** The netlink message type of a subsystem's own message number. */
export function netfilterType(subsystem: number, message: number): number {
  return subsystem << 8 | message;
}

/** Writes a `struct nfgenmsg`: an address family (0 for any) and a resource id. */
export function writeNetfilterHeader(
  writer: MessageWriter,
  header: { readonly family?: number; readonly resource?: number } = {},
): void {
  writer.u8(header.family ?? 0);
  writer.u8(NFNETLINK_V0);
  writer.u16Be(header.resource ?? 0);
}
