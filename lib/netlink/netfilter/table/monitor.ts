import {
  NETLINK_NETFILTER,
  type Netns,
  openNetlink,
} from "../../../linux/mod.ts";
import { ATTRIBUTE_HEADER_SIZE } from "../../message/constants.ts";
import { GroupReader, type Overflow } from "../../connection/group_reader.ts";
import type { Message } from "../../message/message_reader.ts";
import {
  netfilterType,
  NFGENMSG_SIZE,
  NFNL_SUBSYS_NFTABLES,
} from "../../message/nfnetlink.ts";
import { notificationFilter } from "../../connection/notification_filter.ts";
import {
  NFPROTO_INET,
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELFLOWTABLE,
  NFT_MSG_DELOBJ,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
  NFT_MSG_NEWCHAIN,
  NFT_MSG_NEWFLOWTABLE,
  NFT_MSG_NEWOBJ,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  NFTA_OWNER_TABLE,
} from "../wire/constants.ts";

/** NFNLGRP_NFTABLES of `<linux/netfilter/nfnetlink.h>`. */
const GROUP_NFTABLES = 7;

/** All that a transaction consists of; what is left out is the number of the new generation, which each transaction has. */
const CHANGES: readonly number[] = [
  ...[NFT_MSG_NEWTABLE, NFT_MSG_DELTABLE],
  ...[NFT_MSG_NEWCHAIN, NFT_MSG_DELCHAIN],
  ...[NFT_MSG_NEWRULE, NFT_MSG_DELRULE],
  ...[NFT_MSG_NEWSET, NFT_MSG_DELSET],
  ...[NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM],
  ...[NFT_MSG_NEWOBJ, NFT_MSG_DELOBJ],
  ...[NFT_MSG_NEWFLOWTABLE, NFT_MSG_DELFLOWTABLE],
].map((message) => netfilterType(NFNL_SUBSYS_NFTABLES, message));

/** Other programs change their tables thousands of rules at a time. What does not fit is an overflow. */
const RECEIVE_BUFFER_BYTES = 1 << 20;

/** Another program changed the table, or may have. */
export type TableNotification = { readonly kind: "table" } | Overflow;

/** Options of `TableMonitor.open()`. */
export interface TableMonitorOptions {
  /** The name of a table of family inet. */
  readonly table: string;
  /** The namespace to watch; without it, the process's own. */
  readonly netns?: Netns | undefined;
  /** Port ids of sockets whose changes are left out: the caller's own. */
  readonly ignoredPortIds?: readonly number[];
  /** Room for what was not read yet. Default 1 MiB. */
  readonly receiveBufferBytes?: number;
}

/**
 * Reports changes of one nf_tables table by other programs, as `nft monitor`
 * does. Changes of other tables are read and dropped here: the kernel joins the
 * notifications of a transaction to datagrams, and its filter sees the first of each.
 * While it waits it occupies one thread.
 */
export class TableMonitor extends GroupReader<TableNotification> {
  /**
   * Subscribes; `next()` returns changes made from now on.
   *
   * @throws {LinuxError} when the kernel refuses: `EPERM` without CAP_NET_ADMIN
   */
  static open(options: TableMonitorOptions): TableMonitor {
    const { table, netns, ignoredPortIds = [] } = options;
    const socket = openNetlink(NETLINK_NETFILTER, {
      netns,
      receiveBufferBytes: options.receiveBufferBytes ?? RECEIVE_BUFFER_BYTES,
      groups: [GROUP_NFTABLES],
      filter: notificationFilter(
        CHANGES.map((type) => ({ type })),
        ignoredPortIds,
      ),
    });
    return new TableMonitor(socket, aboutTable(table));
  }
}

/**
 * Recognises messages about a table of family inet. The kernel
 * writes the table's name first in each of them (nf_tables_fill_…() of
 * net/netfilter/nf_tables_api.c), so there is nothing to take apart: others'
 * transactions may have a hundred thousand messages.
 */
function aboutTable(
  table: string,
): (message: Message) => TableNotification | undefined {
  const name = new TextEncoder().encode(`${table}\0`);
  const length = ATTRIBUTE_HEADER_SIZE + name.byteLength;
  const owner = Uint8Array.of(
    ...[length & 0xff, length >>> 8, NFTA_OWNER_TABLE, 0],
    ...name,
  );
  return ({ type, payload: { bytes } }) => {
    if (!CHANGES.includes(type) || bytes[0] !== NFPROTO_INET) return undefined;
    const isOurs = owner.every((byte, i) => bytes[NFGENMSG_SIZE + i] === byte);
    return isOurs ? { kind: "table" } : undefined;
  };
}
