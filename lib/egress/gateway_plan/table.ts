import type { Family } from "../../inet/mod.ts";
import {
  nft,
  type NftChain,
  type NftKeyType,
  type NftRule,
  type NftSet,
  type NftTable,
} from "../../netlink/mod.ts";
import { EGRESS_NFT_TABLE } from "../../names/mod.ts";
import { PROBE_SOURCE } from "../kernel/path_probe.ts";
import type { ServerFamily } from "./family.ts";

/** What a gateway counts, per family; the counter's name ends in `_ipv4` or `_ipv6`. */
export const SERVER_COUNTERS = [
  /** Connections given the gateway's address, by their first packet. */
  "masqueraded",
  /** Packets that would leave with the client's address, mostly since they belong to no connection. */
  "invalid",
  /** Packets from outside that no client asked for. */
  "unsolicited",
  /** Encapsulated packets that no client sent, or with a forged inner source. */
  "foreign_fou",
  /** First packets of connections with which a client would have more than its limit. */
  "limited",
] as const;

/** One of the things that a gateway counts. */
export type ServerCounterKind = typeof SERVER_COUNTERS[number];

/** The name of a counter in the table. */
export function counterName(kind: ServerCounterKind, family: Family): string {
  return `${kind}_${family}`;
}

/** Priorities of `<linux/netfilter_ipv4.h>`, `enum nf_ip_hook_priorities`. */
const RAW = -300;
const MANGLE = -150;
const FILTER = 0;
const SRCNAT = 100;

/** The chain that decides what is not tracked. */
export const UNTRACKED_IN = "untracked_in";

/** The chain that decides what a client may begin. */
export const FORWARDING = "forwarding";

/** The chain that decides what may reach the gateway itself. */
export const GUARD = "guard";

/** What the table depends on. */
export interface ServerTableInput {
  readonly families: readonly ServerFamily[];
  readonly ifname: string;
  readonly port: number;
}

/** Plans the nft table of a gateway, without its clients. */
export function planServerTable(input: ServerTableInput): NftTable {
  const { families } = input;
  return {
    family: "inet",
    name: EGRESS_NFT_TABLE,
    counters: families.flatMap(({ family }) =>
      SERVER_COUNTERS.map((kind) => counterName(kind, family))
    ),
    sets: families.map(clientSet),
    chains: [
      untrackedIn(input),
      untrackedOut(input),
      guard(input),
      forwarding(input),
      sourceNat(input),
      leaving(input),
    ],
  };
}

/** A client's own address is both the outer and the inner source: each element is a pair of one address. */
function clientSet({ family, clientSet: name }: ServerFamily): NftSet {
  const type: NftKeyType = family === "ipv4" ? "ipv4_addr" : "ipv6_addr";
  return { name, key: [type, type], elements: [] };
}

function fromClient({ family, clientSet }: ServerFamily) {
  const source = nft.saddrField(family);
  return nft.inSet([source, `inner ${source}`], clientSet);
}

/**
 * Finds the datagrams of clients, each with its own address inside, and keeps
 * them from connection tracking: the connections inside are tracked, and two entries more for
 * each would fill the kernel's table three times as fast. Nothing else is kept from it: a client's
 * connection may have been given the tunnel's port as its source port, and has replies to that port.
 */
function untrackedIn({ families, ifname, port }: ServerTableInput): NftChain {
  return {
    name: UNTRACKED_IN,
    type: "filter",
    hook: "prerouting",
    priority: RAW,
    policy: "accept",
    rules: families.flatMap((family) => [
      nft.rule([
        nft.iifname(ifname),
        nft.daddr(family.address),
        nft.udpDport(port),
        fromClient(family),
        nft.notrack(),
        nft.accept(),
      ]),
      // What clients send, unpacked: nearly all that comes by this link.
      nft.rule([
        nft.iifname(family.link.name),
        nft.saddr(PROBE_SOURCE[family.family], { not: true }),
        nft.accept(),
      ]),
      nft.rule([
        ...ofProbe(family),
        nft.udpSport(port),
        nft.notrack(),
        nft.accept(),
      ]),
      // Else a pod whose packets are translated to its node's address could send the node any packet by the gateway.
      nft.rule([
        ...ofProbe(family),
        nft.counter(counterName("invalid", family.family)),
        nft.drop(),
      ]),
    ]),
  };
}

/**
 * Probes of nodes, unpacked; see `passPathProbes()`, which lets them in. They go
 * the way of clients' packets but for connection tracking: a full table of
 * connections does not make a gateway look lost.
 */
function ofProbe({ family, link }: ServerFamily) {
  return [nft.iifname(link.name), nft.saddr(PROBE_SOURCE[family])];
}

function untrackedOut({ ifname, port }: ServerTableInput): NftChain {
  return {
    name: "untracked_out",
    type: "filter",
    hook: "output",
    priority: RAW,
    policy: "accept",
    rules: [
      nft.rule([nft.oifname(ifname), nft.udpDport(port), nft.notrack()]),
    ],
  };
}

/**
 * Only what was found to be a client's may be unpacked. On input, so that it
 * holds for every local address and interface, and for datagrams that come out
 * of the tunnel themselves. The devices of the tunnel unpack plain IP-in-IP as
 * well, from any sender: no client sends that.
 */
function guard({ families, port }: ServerTableInput): NftChain {
  return {
    name: GUARD,
    type: "filter",
    hook: "input",
    priority: MANGLE,
    policy: "accept",
    rules: [
      nft.rule([
        nft.udpDport(port),
        nft.ctState("untracked"),
        nft.accept(),
      ]),
      ...families.flatMap((family) => [
        refuse("foreign_fou", family, [nft.udpDport(port)]),
        refuse("foreign_fou", family, [nft.l4proto("ipencap")]),
        refuse("foreign_fou", family, [nft.l4proto("ipv6")]),
      ]),
    ],
  };
}

function refuse(
  kind: ServerCounterKind,
  { family }: ServerFamily,
  matches: NftRule["statements"],
): NftRule {
  return nft.rule([
    nft.nfproto(family),
    ...matches,
    nft.counter(counterName(kind, family)),
    nft.drop(),
  ]);
}

/**
 * From outside, clients get only what they asked for, and only what
 * can be translated goes out. What belongs to a connection, nearly all, is
 * through after the first two rules. Untracked are, of what clients send,
 * ICMPv6 messages about neighbours, routers and multicast groups: the kernel
 * keeps them from connection tracking (icmpv6_error() of
 * net/netfilter/nf_conntrack_proto_icmpv6.c), and so from translation.
 */
function forwarding({ families, ifname }: ServerTableInput): NftChain {
  return {
    name: FORWARDING,
    type: "filter",
    hook: "forward",
    priority: FILTER,
    policy: "accept",
    rules: [
      nft.rule([nft.clampMss()]),
      nft.rule([nft.ctState("established", "related"), nft.accept()]),
      ...families.map((family) => nft.rule([...ofProbe(family), nft.accept()])),
      ...families.flatMap((family) => [
        refuse("unsolicited", family, [
          nft.iifname(ifname),
          nft.ctState("invalid", "new", "untracked"),
        ]),
        refuse("invalid", family, [
          nft.oifname(ifname),
          nft.ctState("invalid", "untracked"),
        ]),
      ]),
    ],
  };
}

function sourceNat({ families, ifname }: ServerTableInput): NftChain {
  return {
    name: "source_nat",
    type: "nat",
    hook: "postrouting",
    priority: SRCNAT,
    policy: "accept",
    rules: families.map(({ address, family }) =>
      nft.rule([
        nft.oifname(ifname),
        nft.saddr(address, { not: true }),
        nft.counter(counterName("masqueraded", family)),
        nft.masquerade(),
      ])
    ),
  };
}

/**
 * A client's packet that was not translated, for any reason, does not
 * leave. After translation, since that is when the source is known; masquerading
 * may take any address that the interface has, so what is looked for is a client's.
 * Kernels before 5.6 do not know here where a packet came in, and pass it.
 */
function leaving({ families, ifname }: ServerTableInput): NftChain {
  return {
    name: "leaving",
    type: "filter",
    hook: "postrouting",
    priority: SRCNAT + 10,
    policy: "accept",
    rules: families.flatMap((each) => [
      nft.rule([
        nft.iifname(each.link.name),
        nft.oifname(ifname),
        // What was translated, nearly all, is not looked up.
        nft.saddr(each.address, { not: true }),
        nft.inSet(
          [nft.saddrField(each.family), nft.saddrField(each.family)],
          each.clientSet,
        ),
        nft.counter(counterName("invalid", each.family)),
        nft.drop(),
      ]),
      // Probes are not translated either, and must not be dropped as forged by the gateway's node.
      nft.rule([...ofProbe(each), nft.setSaddr(each.address)]),
    ]),
  };
}
