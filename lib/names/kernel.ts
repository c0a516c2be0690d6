/** Route table with one host route for each pod of the node. */
export const POD_TABLE = 116;

/** Priority of the rule that looks up {@linkcode POD_TABLE}. */
export const POD_RULE_PRIORITY = 2000;

/** Route table with one route for each block of the node, for routing daemons. */
export const EXPORT_TABLE = 119;

/** Protocol number on routes that coild makes. */
export const COILD_PROTOCOL = 30;

/** Protocol number on routes that coil-router makes in the main table. */
export const ROUTER_PROTOCOL = 31;

/** Route table of egress clients: destinations inside the cluster's own ranges. */
export const EGRESS_NARROW_TABLE = 117;

/** Route table of egress clients, all other destinations; and of egress gateways, the way back. */
export const EGRESS_WIDE_TABLE = 118;

/** Rule priority of egress clients: answers to connections from outside, by the mark on them. */
export const EGRESS_ORIGINATING_PRIORITY = 1000;

/** Route tables of egress clients for those answers: this and the index of the interface. */
export const EGRESS_ORIGINATING_TABLES = 1000;

/** Rule priority of egress clients: link-local destinations stay in the main table. */
export const EGRESS_LINK_LOCAL_PRIORITY = 1800;

/**
 * Marks of connections for one gateway have this bit. Marks for originating-only mode are indexes of links, which never
 * have it: the kernel counts them as positive `int`.
 */
export const EGRESS_GATEWAY_MARK_BIT = 0x8000_0000;

/** Originating-only mode: the mark of connections whose first packet that the kernel saw came out of a tunnel. No link has such an index. */
export const EGRESS_TUNNELLED_MARK = 0x4000_0000;

/** Rule priority of egress clients: look up {@linkcode EGRESS_NARROW_TABLE}. */
export const EGRESS_NARROW_PRIORITY = 1900;

/** Rule priority of egress clients: first of those for private destinations. */
export const EGRESS_PRIVATE_PRIORITY = 2000;

/** Rule priority of egress clients: look up {@linkcode EGRESS_WIDE_TABLE}. */
export const EGRESS_WIDE_PRIORITY = 2100;

/** Rule priority of egress gateways: what comes from outside looks up {@linkcode EGRESS_WIDE_TABLE}. */
export const EGRESS_GATEWAY_PRIORITY = 2000;

/** The nftables table of egress clients and gateways, of family inet. */
export const EGRESS_NFT_TABLE = "coil";

/** UDP port of Foo-over-UDP tunnels. */
export const FOU_PORT = 5555;

/** Start of the alias on the host end of a pod's veth pair: `COIL:<pool>:<container ID>:<ifname>`. */
export const LINK_ALIAS_PREFIX = "COIL:";

/** Start of the alias on a host veth that is cut off and waits for its deletion. */
export const HUSK_ALIAS_PREFIX = "COIL-HUSK:";

/** Link group of pods' host veths: packets from sources other than the pod's addresses are dropped. */
export const POD_LINK_GROUP = 30115;

/**
 * The bits of a link's group that make it one of {@linkcode POD_LINK_GROUP}. The
 * upper ones are 0 but in the group that links are put into to be deleted.
 */
export const POD_LINK_GROUP_MASK = 0xffff;

/** Link group of host veths of pods that may send from any source. */
export const ANY_SOURCE_LINK_GROUP = 30114;

/** The nftables table of a node, of family inet. */
export const NODE_NFT_TABLE = "coil-node";

/** Start of the name of the host end of a pod's veth pair; 8 hexadecimal digits follow. */
export const HOST_VETH_PREFIX = "veth";

/** IPv4 gateway of pods: every host veth carries it, with scope link. */
export const LINK_LOCAL_GATEWAY = "169.254.1.1";

/** Protocol number on rules and routes that the coordinator makes, on the host and in pods. */
export const COORDINATOR_PROTOCOL = 32;

/** Start of the alias on the host end of a pod's `veth0`: `COIL-COORD:<container ID>:<ifname>`. */
export const COORDINATOR_ALIAS_PREFIX = "COIL-COORD:";

/** The same once DEL has cut it off, and it waits for its deletion. */
export const COORDINATOR_HUSK_ALIAS_PREFIX = "COIL-COORD-HUSK:";

/** The link to the host inside a pod whose first interface is on an underlay network. */
export const COORDINATOR_VETH = "veth0";

/** Route table of a pod: answers by the link to the host. The interface with number n has this and n. */
export const COORDINATOR_TABLES = 100;

/** Number of a pod's first interface on an underlay network; others have those from 1 to below. */
export const COORDINATOR_FIRST_NIC = 100;

/** Rule priority in a pod: answers to what came from the host, by the mark on them; and on the host, of the rule for pods. */
export const COORDINATOR_PRIORITY = 1000;

/** Rule priorities in a pod: this and n for what is sent from an address of interface n. */
export const COORDINATOR_NIC_PRIORITIES = 1100;

/** The bit of marks that means: came in from the host. */
export const COORDINATOR_MARK = 0x10000000;

/**
 * The bits that its rule looks at. Marks of gateways have
 * {@link EGRESS_GATEWAY_MARK_BIT}, and any others by chance.
 */
export const COORDINATOR_MARK_MASK = 0x90000000;

/** Route table of the host with the pods' addresses, unless configured. */
export const COORDINATOR_HOST_TABLE = 500;

/** The nftables table inside a pod, of family inet. */
export const COORDINATOR_NFT_TABLE = "coil-coordinator";

/** Where pods have addresses of their VPC: priority of the rule that looks up {@linkcode POD_TABLE}, before those of blocks. */
export const VPC_POD_RULE_PRIORITY = 512;

/** Rule priority there: answers of node ports that came in by the primary ENI, by the mark on them. */
export const VPC_NODE_PORT_PRIORITY = 1024;

/** The bit of marks for these answers, as AWS' own plugin has it. */
export const VPC_NODE_PORT_MARK = 0x80;

/** Rule priority there: what a block of a secondary ENI sends. */
export const VPC_BLOCK_PRIORITY = 1536;

/** The last priority of rules for blocks: those of many blocks are in groups, which have the priorities in between. */
export const VPC_BLOCK_END_PRIORITY = 2600;

/** Rule priority there: what is sent from a secondary ENI's primary address; just before the main table. */
export const VPC_ENI_PRIORITY = 32765;

/** Route tables of secondary ENIs: this and the ENI's device index. */
export const VPC_ENI_TABLES = 10_000;

/** Protocol number on rules and routes that coild makes for ENIs. */
export const VPC_PROTOCOL = 33;

/** Route table of addresses that may not be used again yet. No rule looks it up. */
export const VPC_REST_TABLE = 120;

/** The nftables table of a node whose pods have addresses of their VPC, of family inet. */
export const VPC_NFT_TABLE = "coil-vpc";
