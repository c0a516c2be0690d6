import {
  NLMSG_DONE,
  NLMSG_ERROR,
  RTM_DELADDR,
  RTM_DELLINK,
  RTM_DELNEIGH,
  RTM_DELROUTE,
  RTM_DELRULE,
  RTM_GETADDR,
  RTM_GETLINK,
  RTM_GETNEIGH,
  RTM_GETROUTE,
  RTM_GETRULE,
  RTM_NEWADDR,
  RTM_NEWLINK,
  RTM_NEWNEIGH,
  RTM_NEWROUTE,
  RTM_NEWRULE,
  RTM_SETLINK,
} from "../message/constants.ts";
import {
  netfilterType,
  NFNL_SUBSYS_CTNETLINK,
  NFNL_SUBSYS_NFTABLES,
} from "../message/nfnetlink.ts";

/** Names of the message types of a protocol. */
export type TypeNames = ReadonlyMap<number, string>;

const COMMON_NAMES: readonly [number, string][] = [
  [NLMSG_ERROR, "NLMSG_ERROR"],
  [NLMSG_DONE, "NLMSG_DONE"],
];

/** NETLINK_ROUTE. */
export const ROUTE_NAMES: TypeNames = new Map([
  ...COMMON_NAMES,
  [RTM_NEWLINK, "RTM_NEWLINK"],
  [RTM_DELLINK, "RTM_DELLINK"],
  [RTM_GETLINK, "RTM_GETLINK"],
  [RTM_SETLINK, "RTM_SETLINK"],
  [RTM_NEWADDR, "RTM_NEWADDR"],
  [RTM_DELADDR, "RTM_DELADDR"],
  [RTM_GETADDR, "RTM_GETADDR"],
  [RTM_NEWROUTE, "RTM_NEWROUTE"],
  [RTM_DELROUTE, "RTM_DELROUTE"],
  [RTM_GETROUTE, "RTM_GETROUTE"],
  [RTM_NEWNEIGH, "RTM_NEWNEIGH"],
  [RTM_DELNEIGH, "RTM_DELNEIGH"],
  [RTM_GETNEIGH, "RTM_GETNEIGH"],
  [RTM_NEWRULE, "RTM_NEWRULE"],
  [RTM_DELRULE, "RTM_DELRULE"],
  [RTM_GETRULE, "RTM_GETRULE"],
]);

/** NETLINK_GENERIC: but for the family of families, the numbers are given out as modules are loaded. */
export const GENERIC_NAMES: TypeNames = new Map([
  ...COMMON_NAMES,
  [16, "GENL_ID_CTRL"],
]);

/** Messages in the order of their numbers, of `<linux/netfilter/nfnetlink_conntrack.h>` and `nf_tables.h`. */
const CONNTRACK_MESSAGES = [
  "CT_NEW",
  "CT_GET",
  "CT_DELETE",
  "CT_GET_CTRZERO",
  "CT_GET_STATS_CPU",
  "CT_GET_STATS",
];
const NFTABLES_MESSAGES = [
  "NEWTABLE",
  "GETTABLE",
  "DELTABLE",
  "NEWCHAIN",
  "GETCHAIN",
  "DELCHAIN",
  "NEWRULE",
  "GETRULE",
  "DELRULE",
  "NEWSET",
  "GETSET",
  "DELSET",
  "NEWSETELEM",
  "GETSETELEM",
  "DELSETELEM",
  "NEWGEN",
  "GETGEN",
  "TRACE",
  "NEWOBJ",
  "GETOBJ",
  "DELOBJ",
];

/** NETLINK_NETFILTER. */
export const NETFILTER_NAMES: TypeNames = new Map([
  ...COMMON_NAMES,
  [16, "NFNL_MSG_BATCH_BEGIN"],
  [17, "NFNL_MSG_BATCH_END"],
  ...numbered(NFNL_SUBSYS_CTNETLINK, "IPCTNL_MSG", CONNTRACK_MESSAGES),
  ...numbered(NFNL_SUBSYS_NFTABLES, "NFT_MSG", NFTABLES_MESSAGES),
]);

function numbered(
  subsystem: number,
  prefix: string,
  names: readonly string[],
): [number, string][] {
  return names.map((name, index) => [
    netfilterType(subsystem, index),
    `${prefix}_${name}`,
  ]);
}
