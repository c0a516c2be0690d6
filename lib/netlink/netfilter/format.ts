import type { NftTable } from "./model.ts";

/** The text that `nft list table inet NAME` prints for the table (nftables 1.0.6). */
export function formatTable(_table: NftTable): string {
  throw new TypeError("Cannot format table: not written yet");
}
