/** NFPROTO_… of `<linux/netfilter.h>`: a table's family, and what `meta nfproto` compares with. */
export const NFPROTO_INET = 1;
export const NFPROTO_IPV4 = 2;
export const NFPROTO_ARP = 3;
export const NFPROTO_NETDEV = 5;
export const NFPROTO_BRIDGE = 7;
export const NFPROTO_IPV6 = 10;

/** IPPROTO_… of `<linux/in.h>`. */
export const IPPROTO_ICMP = 1;
export const IPPROTO_IPIP = 4;
export const IPPROTO_TCP = 6;
export const IPPROTO_UDP = 17;
export const IPPROTO_IPV6 = 41;
export const IPPROTO_ICMPV6 = 58;

/** The frame of a transaction, `<linux/netfilter/nfnetlink.h>`. */
export const NFNL_MSG_BATCH_BEGIN = 0x10;
export const NFNL_MSG_BATCH_END = 0x11;
export const NFNL_BATCH_GENID = 1;

/** Messages of `enum nf_tables_msg_types`, `<linux/netfilter/nf_tables.h>`, as everything below. */
export const NFT_MSG_NEWTABLE = 0;
export const NFT_MSG_GETTABLE = 1;
export const NFT_MSG_DELTABLE = 2;
export const NFT_MSG_NEWCHAIN = 3;
export const NFT_MSG_GETCHAIN = 4;
export const NFT_MSG_DELCHAIN = 5;
export const NFT_MSG_NEWRULE = 6;
export const NFT_MSG_GETRULE = 7;
export const NFT_MSG_DELRULE = 8;
export const NFT_MSG_NEWSET = 9;
export const NFT_MSG_GETSET = 10;
export const NFT_MSG_DELSET = 11;
export const NFT_MSG_NEWSETELEM = 12;
export const NFT_MSG_GETSETELEM = 13;
export const NFT_MSG_DELSETELEM = 14;
export const NFT_MSG_GETGEN = 16;
export const NFT_MSG_NEWOBJ = 18;
export const NFT_MSG_GETOBJ = 19;
export const NFT_MSG_DELOBJ = 20;
export const NFT_MSG_NEWFLOWTABLE = 22;
export const NFT_MSG_DELFLOWTABLE = 24;

/** The element of every list, NFTA_LIST_ELEM. */
export const NFTA_LIST_ELEM = 1;
/** The number of a ruleset's generation. */
export const NFTA_GEN_ID = 1;

/** The owner of chains, rules, sets, elements and objects: attribute 1 of each. */
export const NFTA_OWNER_TABLE = 1;

/** Attributes of a table. */
export const NFTA_TABLE_NAME = 1;
export const NFTA_TABLE_FLAGS = 2;
export const NFTA_TABLE_USE = 3;

/** Attributes of a chain and of its hook. */
export const NFTA_CHAIN_NAME = 3;
export const NFTA_CHAIN_HOOK = 4;
export const NFTA_CHAIN_POLICY = 5;
export const NFTA_CHAIN_TYPE = 7;
export const NFTA_HOOK_HOOKNUM = 1;
export const NFTA_HOOK_PRIORITY = 2;

/** Attributes of a rule. */
export const NFTA_RULE_CHAIN = 2;
export const NFTA_RULE_EXPRESSIONS = 4;
export const NFTA_RULE_USERDATA = 7;

/** Attributes of a set. */
export const NFTA_SET_NAME = 2;
export const NFTA_SET_FLAGS = 3;
export const NFTA_SET_KEY_TYPE = 4;
export const NFTA_SET_KEY_LEN = 5;
export const NFTA_SET_DATA_TYPE = 6;
export const NFTA_SET_DATA_LEN = 7;
export const NFTA_SET_DESC = 9;
export const NFTA_SET_ID = 10;
export const NFTA_SET_TIMEOUT = 11;
export const NFTA_SET_USERDATA = 13;

/** Flags of a set: it is a map; elements go after some time; rules add elements. */
export const NFT_SET_MAP = 0x8;
export const NFT_SET_TIMEOUT = 0x10;
export const NFT_SET_EVAL = 0x20;

/** The most elements that a set may have; absent without a limit. */
export const NFTA_SET_DESC_SIZE = 1;

/** Attributes of a list of elements, and of one element. */
export const NFTA_SET_ELEM_LIST_SET = 2;
export const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
export const NFTA_SET_ELEM_KEY = 1;
export const NFTA_SET_ELEM_DATA = 2;

/** Attributes of an object; the kind of object that a counter is. */
export const NFTA_OBJ_NAME = 2;
export const NFTA_OBJ_TYPE = 3;
export const NFTA_OBJ_DATA = 4;
export const NFT_OBJECT_COUNTER = 1;
export const NFTA_COUNTER_BYTES = 1;
export const NFTA_COUNTER_PACKETS = 2;

/** A value or a verdict. */
export const NFTA_DATA_VALUE = 1;
export const NFTA_DATA_VERDICT = 2;
export const NFTA_VERDICT_CODE = 1;
export const NFTA_VERDICT_CHAIN = 2;
/** NF_DROP and NF_ACCEPT of `<linux/netfilter.h>`: verdicts and policies. */
export const NF_DROP = 0;
export const NF_ACCEPT = 1;
