/**
 * Makes rules and their statements: what one would write for `nft`, as functions.
 *
 * @module
 */

import type { Address, Family, Prefix } from "../../../inet/mod.ts";
import type {
  NftCtDirection,
  NftCtState,
  NftField,
  NftIcmpv6Type,
  NftL4proto,
  NftMapTarget,
  NftRate,
  NftRejectCode,
  NftRule,
  NftStatement,
} from "./model.ts";

/** A match that can be turned round: `!=` instead of `==`. */
export interface Negation {
  /** Whether the packet must not agree. */
  readonly not?: boolean;
}

/** A rule of these statements. */
export function rule(
  statements: readonly NftStatement[],
  options: { readonly comment?: string } = {},
): NftRule {
  return { statements, ...options };
}

/** The link that the packet came in by; `fou*` means any whose name begins so. */
export function iifname(name: string, options: Negation = {}): NftStatement {
  return { kind: "ifname", field: "iifname", name, not: options.not ?? false };
}

/** The link that the packet goes out by; `fou*` means any whose name begins so. */
export function oifname(name: string, options: Negation = {}): NftStatement {
  return { kind: "ifname", field: "oifname", name, not: options.not ?? false };
}

/** The packet came in by the link of this index, by any name. */
export function iif(index: number): NftStatement {
  return { kind: "ifindex", field: "iif", index };
}

/** The packet goes out by the link of this index, by any name. */
export function oif(index: number): NftStatement {
  return { kind: "ifindex", field: "oif", index };
}

/**
 * The packet came in by a link of that group, as `ip link set group` sets it;
 * with a mask, of any group that is the same in the bits of the mask.
 */
export function iifgroup(
  group: number,
  { not = false, mask }: Negation & { readonly mask?: number } = {},
): NftStatement {
  if (mask === undefined) return { kind: "iifgroup", group, not };
  return { kind: "iifgroup", group, mask, not };
}

/**
 * The route to the packet's source leads (`exists`) to the link that the packet
 * came in by, or does not (`missing`). In chains of hook prerouting.
 */
export function reversePath(what: "exists" | "missing"): NftStatement {
  return { kind: "reversePath", exists: what === "exists" };
}

/** An ICMPv6 message of that type. */
export function icmpv6Type(type: NftIcmpv6Type): NftStatement {
  return { kind: "icmpv6Type", type };
}

/** The field that has a packet's source. */
export function saddrField(family: Family): "ip saddr" | "ip6 saddr" {
  return family === "ipv4" ? "ip saddr" : "ip6 saddr";
}

/** The field that has a packet's destination. */
export function daddrField(family: Family): "ip daddr" | "ip6 daddr" {
  return family === "ipv4" ? "ip daddr" : "ip6 daddr";
}

/** The packet's source address; it has to be of the address's family. */
export function saddr(address: Address, options: Negation = {}): NftStatement {
  const field = saddrField(address.family);
  return { kind: "address", field, address, not: options.not ?? false };
}

/** The packet's destination address; it has to be of the address's family. */
export function daddr(address: Address, options: Negation = {}): NftStatement {
  const field = daddrField(address.family);
  return { kind: "address", field, address, not: options.not ?? false };
}

/** The packet's destination is in that prefix; it has to be of the prefix's family. */
export function daddrIn(prefix: Prefix, options: Negation = {}): NftStatement {
  const field = daddrField(prefix.family);
  return { kind: "prefix", field, prefix, not: options.not ?? false };
}

/** The source of the packet in a UDP datagram; a test of the datagram's port has to come before. */
export function innerSaddr(address: Address): NftStatement {
  const field = `inner ${saddrField(address.family)}` as const;
  return { kind: "address", field, address, not: false };
}

/** The fields, concatenated, are an element of the set. */
export function inSet(
  fields: readonly NftField[],
  set: string,
  options: Negation = {},
): NftStatement {
  return { kind: "lookup", fields, set, not: options.not ?? false };
}

/** The packet's family. */
export function nfproto(family: "ipv4" | "ipv6"): NftStatement {
  return { kind: "nfproto", family };
}

/** The packet's transport protocol. */
export function l4proto(protocol: NftL4proto): NftStatement {
  return { kind: "l4proto", protocol };
}

/** A UDP datagram to that port. */
export function udpDport(port: number): NftStatement {
  return { kind: "udpDport", port };
}

/** A UDP datagram from that port. */
export function udpSport(port: number): NftStatement {
  return { kind: "udpSport", port };
}

/** A TCP segment to that port. */
export function tcpDport(port: number): NftStatement {
  return { kind: "tcpDport", port };
}

/** A TCP segment from a port below that one. */
export function tcpSportBelow(port: number): NftStatement {
  return { kind: "tcpSportBelow", port };
}

/** A TCP segment that neither begins a connection nor answers one that does. */
export function tcpNotSyn(): NftStatement {
  return { kind: "tcpNotSyn" };
}

/** Connection tracking says one of these of the packet. */
export function ctState(...states: readonly NftCtState[]): NftStatement {
  return { kind: "ctState", states };
}

/** The packet is the first of its connection. */
export function ctUnconfirmed(): NftStatement {
  return { kind: "ctUnconfirmed" };
}

/** A random number of 32 bits is below that one: a share of the packets. */
export function random(below: number): NftStatement {
  return { kind: "random", below };
}

/** Adds the fields, concatenated, to a set that rules fill; where that is full, the rule does not apply. */
export function addToSet(
  fields: readonly NftField[],
  set: string,
): NftStatement {
  return { kind: "addToSet", fields, set };
}

/**
 * More connections than that are alive of those that came by here with the
 * same fields. The kernel walks through them all, up to once per tick of its clock:
 * keep it to some thousands, and to first packets of connections, since others are
 * counted again (nf_conncount_add() of net/netfilter/nf_conncount.c).
 */
export function connectionsOver(
  count: number,
  fields: readonly NftField[],
  set: string,
): NftStatement {
  return { kind: "addToSet", fields, set, connectionsOver: count };
}

/** Packets with the same fields come by here faster than that. */
export function rateOver(
  rate: NftRate,
  fields: readonly NftField[],
  set: string,
): NftStatement {
  return { kind: "addToSet", fields, set, rateOver: rate };
}

/** The packet goes that way of its connection. */
export function ctDirection(direction: NftCtDirection): NftStatement {
  return { kind: "ctDirection", direction };
}

/** The connection's mark. */
export function ctMark(mark: number): NftStatement {
  return { kind: "mark", field: "ct mark", mark };
}

/** The connection's mark has all of these bits. */
export function ctMarkBits(bits: number): NftStatement {
  return { kind: "mark", field: "ct mark", mark: bits, mask: bits };
}

/** The connection's mark has none of these bits. */
export function ctMarkLacks(bits: number): NftStatement {
  return { kind: "mark", field: "ct mark", mark: 0, mask: bits };
}

/** The packet's mark. */
export function metaMark(mark: number): NftStatement {
  return { kind: "mark", field: "meta mark", mark };
}

/** Counts the packet with a counter of the table. */
export function counter(name: string): NftStatement {
  return { kind: "counter", name };
}

/** Lets the packet go on to the next chain. */
export function accept(): NftStatement {
  return { kind: "verdict", verdict: "accept" };
}

/** Throws the packet away. */
export function drop(): NftStatement {
  return { kind: "verdict", verdict: "drop" };
}

/** Gives the connection the address of the link that it leaves by. */
export function masquerade(): NftStatement {
  return { kind: "masquerade" };
}

/** Writes another source address into the packet, without connection tracking, and corrects the checksums. */
export function setSaddr(address: Address): NftStatement {
  return { kind: "setAddress", field: saddrField(address.family), address };
}

/**
 * Sets a mark, or an address without a change of the packet's route, to what a map has for a field, as `meta mark set ip
 * saddr map @MAP`; where the map has nothing for it, the rule does not apply.
 */
export function setByMap(
  target: NftMapTarget,
  by: { readonly field: NftField; readonly map: string },
): NftStatement {
  return { kind: "setByMap", target, field: by.field, map: by.map };
}

/** Drops the packet and sends its sender an ICMP error. */
export function reject(code: NftRejectCode): NftStatement {
  return { kind: "reject", code };
}

/** Marks the connection. */
export function setCtMark(mark: number): NftStatement {
  return { kind: "setCtMark", mark };
}

/** Marks the packet. */
export function setMetaMark(mark: number): NftStatement {
  return { kind: "setMetaMark", mark };
}

/** Sets bits of the connection's mark: `ct mark set ct mark | BITS`. */
export function setCtMarkBits(bits: number): NftStatement {
  return { kind: "setMarkBits", field: "ct mark", bits };
}

/** Sets bits of the packet's mark: `meta mark set meta mark | BITS`. */
export function setMetaMarkBits(bits: number): NftStatement {
  return { kind: "setMarkBits", field: "meta mark", bits };
}

/** Gives the packet the mark of its connection: `meta mark set ct mark`. */
export function restoreMark(): NftStatement {
  return { kind: "restoreMark" };
}

/** Gives the connection the mark of the packet: `ct mark set meta mark`. */
export function saveMark(): NftStatement {
  return { kind: "saveMark" };
}

/** Keeps the packet from connection tracking; in chains of priority raw (-300), which come before it. */
export function notrack(): NftStatement {
  return { kind: "notrack" };
}

/** Lowers the segment size that a TCP connection begins with to what the route's MTU has room for. */
export function clampMss(): NftStatement {
  return { kind: "clampMss" };
}
