/** Message header, `struct nlmsghdr` of `<linux/netlink.h>`. */
export const NLMSG_HEADER_SIZE = 16;

/** Message types of `<linux/netlink.h>`. */
export const NLMSG_NOOP = 1;
export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;

/** Message flags of `<linux/netlink.h>`. */
export const NLM_F_REQUEST = 0x1;
export const NLM_F_ACK = 0x4;
export const NLM_F_DUMP_INTR = 0x10;
export const NLM_F_REPLACE = 0x100;
export const NLM_F_EXCL = 0x200;
export const NLM_F_CREATE = 0x400;
export const NLM_F_APPEND = 0x800;
/** NLM_F_ROOT | NLM_F_MATCH. */
export const NLM_F_DUMP = 0x300;

/** Flags of an NLMSG_ERROR or NLMSG_DONE: the request is cut off; attributes follow. */
export const NLM_F_CAPPED = 0x100;
export const NLM_F_ACK_TLVS = 0x200;

/** Attributes of an extended acknowledgement, `enum nlmsgerr_attrs`. */
export const NLMSGERR_ATTR_MSG = 1;
export const NLMSGERR_ATTR_OFFS = 2;

/** Attribute header, `struct nlattr`: length and type, 16 bits each. */
export const ATTRIBUTE_HEADER_SIZE = 4;
/** NLA_F_NESTED: the attribute holds attributes. */
export const NLA_F_NESTED = 0x8000;
/** NLA_TYPE_MASK: the type without NLA_F_NESTED and NLA_F_NET_BYTEORDER. */
export const NLA_TYPE_MASK = 0x3fff;

/** Message types of `<linux/rtnetlink.h>`. */
export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
export const RTM_GETLINK = 18;
export const RTM_SETLINK = 19;
export const RTM_NEWADDR = 20;
export const RTM_DELADDR = 21;
export const RTM_GETADDR = 22;
export const RTM_NEWROUTE = 24;
export const RTM_DELROUTE = 25;
export const RTM_GETROUTE = 26;
export const RTM_NEWNEIGH = 28;
export const RTM_DELNEIGH = 29;
export const RTM_GETNEIGH = 30;
export const RTM_NEWRULE = 32;
export const RTM_DELRULE = 33;
export const RTM_GETRULE = 34;
export const RTM_NEWNETCONF = 80;
export const RTM_NEWNSID = 88;
export const RTM_GETNSID = 90;

/** Rounds up to the next multiple of four: NLMSG_ALIGN and NLA_ALIGN. */
export function align(length: number): number {
  return (length + 3) & ~3;
}
