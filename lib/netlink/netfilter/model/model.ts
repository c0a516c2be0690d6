import type { Address, Prefix } from "../../../inet/mod.ts";

/** A whole table: what the kernel should have under this name, and nothing else. */
export interface NftTable {
  /** Tables of family `inet` see IPv4 and IPv6. */
  readonly family: "inet";
  /** The table's name. */
  readonly name: string;
  /** The names of its counters, which rules count with. */
  readonly counters: readonly string[];
  readonly sets: readonly NftSet[];
  /** Its chains, each hooked into the way of packets. */
  readonly chains: readonly NftChain[];
}

/** Type of one field of a set's key, named as nft names data types. */
export type NftKeyType = "ipv4_addr" | "ipv6_addr" | "ifname" | "mark";

/** One element of a set: a value for each field of its key; in a map, what it stands for comes last. */
export type NftElement = readonly (Address | string | number)[];

/** A set of values, or of tuples of values, that rules look up; or a map, which has a value for each. */
export interface NftSet {
  /** The set's name. */
  readonly name: string;
  /** The fields of its key; several make a concatenation, `ipv4_addr . ipv4_addr`. */
  readonly key: readonly NftKeyType[];
  /** Present in a map: the type of what its elements stand for. */
  readonly value?: NftKeyType;
  /** Its elements, in any order; none where rules add them. */
  readonly elements: readonly NftElement[];
  /** Present where rules add the elements; these are neither compared nor removed. */
  readonly dynamic?: NftDynamic;
}

/** Properties of a set that rules fill. */
export interface NftDynamic {
  /** The most elements that it takes; a rule that would add one more does not apply. */
  readonly size: number;
  /** After so long an element is gone, in milliseconds; without it, when it no longer counts anything. */
  readonly timeoutMs?: number;
}

/** A base chain. */
export interface NftChain {
  /** The chain's name. */
  readonly name: string;
  /** `nat` sees the first packet of each connection, `route` looks the route up again when a mark changed. */
  readonly type: "filter" | "nat" | "route";
  /** Where in the way of packets it is. */
  readonly hook:
    | "prerouting"
    | "input"
    | "forward"
    | "output"
    | "postrouting";
  /** Chains of one hook are run from the lowest priority on: mangle is -150, filter 0, srcnat 100. */
  readonly priority: number;
  /** What happens to packets about which no rule decides. */
  readonly policy: "accept" | "drop";
  /** Its rules, tried in order. */
  readonly rules: readonly NftRule[];
}

/** One rule: matches from left to right, and what is done with packets that agree with all of them. */
export interface NftRule {
  /** Matches and actions. */
  readonly statements: readonly NftStatement[];
  /** Says what the rule is for; shown by `nft list`. */
  readonly comment?: string;
}

/** An address in a packet's own header. */
export type NftHeaderAddress =
  | "ip saddr"
  | "ip daddr"
  | "ip6 saddr"
  | "ip6 daddr";

/** A part of a packet, or something known about it, that is compared with an address. */
export type NftAddressField =
  | NftHeaderAddress
  /** The source of an IPv4 packet in a UDP datagram (Foo over UDP): `@th,160,32`. */
  | "inner ip saddr"
  /** The destination of the same packet: `@th,192,32`. */
  | "inner ip daddr"
  /** The source of an IPv6 packet in a UDP datagram: `@th,128,128`. */
  | "inner ip6 saddr"
  /** The destination of the same packet: `@th,256,128`. */
  | "inner ip6 daddr";

/** A packet's field that can be looked up in a set. */
export type NftField =
  | NftAddressField
  | "iifname"
  | "oifname"
  | "meta mark"
  | "ct mark";

/** What can be given a value that a map has. */
export type NftMapTarget = NftHeaderAddress | "meta mark";

/** What connection tracking thinks of a packet, in the order of the states' bits. */
export const CT_STATES = [
  "invalid",
  "established",
  "related",
  "new",
  "untracked",
] as const;

/** One of them. */
export type NftCtState = typeof CT_STATES[number];

/** Protocol of an IP packet's payload, named as in /etc/protocols: `ipencap` and `ipv6` are tunnels. */
export type NftL4proto =
  | "tcp"
  | "udp"
  | "icmp"
  | "ipv6-icmp"
  | "ipencap"
  | "ipv6";

/** A type of ICMPv6 message, named as nft does. */
export type NftIcmpv6Type =
  | "nd-router-solicit"
  | "nd-router-advert"
  | "nd-redirect";

/** Whether a packet goes the way of the one that began the connection. */
export type NftCtDirection = "original" | "reply";

/** ICMP code for the sender of a rejected packet, in either family. */
export type NftRejectCode = "admin-prohibited" | "host-unreachable";

/** How many packets may pass. */
export interface NftRate {
  readonly perSecond: number;
  /** So many may come at once. */
  readonly burst: number;
}

/** A match or an action of a rule. Made by the functions of `nft`. */
export type NftStatement =
  | {
    readonly kind: "ifname";
    readonly field: "iifname" | "oifname";
    /** A name, or the beginning of one followed by `*`. */
    readonly name: string;
    readonly not: boolean;
  }
  | {
    readonly kind: "ifindex";
    readonly field: "iif" | "oif";
    readonly index: number;
  }
  | {
    readonly kind: "address";
    readonly field: NftAddressField;
    readonly address: Address;
    readonly not: boolean;
  }
  | {
    readonly kind: "prefix";
    readonly field: NftHeaderAddress;
    /** At least one bit long. */
    readonly prefix: Prefix;
    readonly not: boolean;
  }
  | {
    readonly kind: "lookup";
    readonly fields: readonly NftField[];
    readonly set: string;
    readonly not: boolean;
  }
  | {
    readonly kind: "iifgroup";
    readonly group: number;
    /** The bits of the link's group that count; all unless given. */
    readonly mask?: number;
    readonly not: boolean;
  }
  /** Whether the route to the packet's source leads to the link that the packet came in by. */
  | { readonly kind: "reversePath"; readonly exists: boolean }
  | { readonly kind: "icmpv6Type"; readonly type: NftIcmpv6Type }
  | { readonly kind: "nfproto"; readonly family: "ipv4" | "ipv6" }
  | { readonly kind: "l4proto"; readonly protocol: NftL4proto }
  | { readonly kind: "udpDport"; readonly port: number }
  | { readonly kind: "udpSport"; readonly port: number }
  | { readonly kind: "tcpDport"; readonly port: number }
  | { readonly kind: "tcpSportBelow"; readonly port: number }
  | { readonly kind: "tcpNotSyn" }
  | { readonly kind: "ctState"; readonly states: readonly NftCtState[] }
  | { readonly kind: "ctUnconfirmed" }
  | { readonly kind: "ctDirection"; readonly direction: NftCtDirection }
  | { readonly kind: "random"; readonly below: number }
  | {
    readonly kind: "addToSet";
    readonly fields: readonly NftField[];
    readonly set: string;
    /** Applies only where more connections than these have the same element. */
    readonly connectionsOver?: number;
    /** Applies only where packets with the same element come faster than this. */
    readonly rateOver?: NftRate;
  }
  | {
    readonly kind: "mark";
    readonly field: "meta mark" | "ct mark";
    readonly mark: number;
    /** The bits of the mark that count; all unless given. */
    readonly mask?: number;
  }
  | { readonly kind: "counter"; readonly name: string }
  | { readonly kind: "verdict"; readonly verdict: "accept" | "drop" }
  | { readonly kind: "masquerade" }
  | {
    readonly kind: "setAddress";
    readonly field: NftHeaderAddress;
    readonly address: Address;
  }
  | {
    readonly kind: "setByMap";
    readonly target: NftMapTarget;
    readonly field: NftField;
    readonly map: string;
  }
  | { readonly kind: "reject"; readonly code: NftRejectCode }
  | { readonly kind: "setCtMark"; readonly mark: number }
  | { readonly kind: "setMetaMark"; readonly mark: number }
  | {
    readonly kind: "setMarkBits";
    readonly field: "meta mark" | "ct mark";
    /** The other bits stay as they are. */
    readonly bits: number;
  }
  | { readonly kind: "restoreMark" }
  | { readonly kind: "saveMark" }
  | { readonly kind: "notrack" }
  | { readonly kind: "clampMss" };
