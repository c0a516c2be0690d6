import type { Family } from "../../inet/mod.ts";
import {
  COORDINATOR_MARK,
  EGRESS_GATEWAY_MARK_BIT,
  EGRESS_NFT_TABLE,
  EGRESS_TUNNELLED_MARK,
} from "../../names/mod.ts";
import {
  nft,
  type NftChain,
  type NftRule,
  type NftSet,
  type NftStatement,
  type NftTable,
} from "../../netlink/mod.ts";
import {
  arrivalRule,
  choiceRules,
  choiceSets,
  gatewayMaps,
  gatewayRule,
  readyRule,
} from "./choice.ts";
import type { ClientPlan } from "./plan.ts";
import type { ClientInterface } from "./originating.ts";
import { OWN_PORTS_FROM } from "./own_ports.ts";
import { TUNNEL_LINKS } from "../kernel/tunnel_names.ts";

/** Counts tunnelled packets that no gateway sent. */
export const FOREIGN_FOU_COUNTER = "foreign_fou";

/** The chain in which gateways are chosen. */
export const CHOICE_CHAIN = "output";

/** The marks of connections that came in by an interface, in originating-only mode. */
const INTERFACES = "interfaces";

/** NF_IP_PRI_RAW, NF_IP_PRI_MANGLE and NF_IP_PRI_FILTER of `<linux/netfilter_ipv4.h>`. */
const RAW = -300;
const MANGLE = -150;
const FILTER = 0;
/** Before gateways are chosen. */
const ANSWERS = MANGLE - 1;

interface SenderFacts {
  readonly set: string;
  /** What else a receiver unpacks. */
  readonly plain: readonly ("ipencap" | "ipv6")[];
}

const SENDERS: Readonly<Record<Family, SenderFacts>> = {
  ipv4: {
    set: "senders4",
    plain: ["ipencap"],
  },
  ipv6: {
    set: "senders6",
    plain: ["ipencap", "ipv6"],
  },
};

/** The set of addresses that may send tunnelled packets. */
export function senderSetName(family: Family): string {
  return SENDERS[family].set;
}

/** Whether there is anything for a table to do. */
export function needsTable(
  plan: ClientPlan,
  interfaces: readonly ClientInterface[],
): boolean {
  return plan.receiverFamilies.length > 0 || interfaces.length > 0;
}

/** What a client's table has to know of its namespace. */
export interface TableFacts {
  /** Those that originating-only mode is about; none when it is off. */
  readonly interfaces: readonly ClientInterface[];
  /** See `ownPortsFrom()`. */
  readonly ownPortsFrom?: number;
}

/**
 * The nft table of a client: who may send tunnelled packets to it, and which
 * connections are answered by the way they came. Pure.
 */
export function clientTable(plan: ClientPlan, facts: TableFacts): NftTable {
  const { receiverFamilies, tunnelFamilies, choices } = plan;
  const { interfaces } = facts;
  return {
    family: "inet",
    name: EGRESS_NFT_TABLE,
    counters: receiverFamilies.length === 0 ? [] : [FOREIGN_FOU_COUNTER],
    sets: [
      ...tunnelFamilies.map((family) => senderSet(plan, family)),
      ...(plan.originatingOnly ? [interfaceSet(interfaces)] : []),
      ...choices.flatMap(choiceSets),
      ...tunnelFamilies.flatMap((family) => gatewayMaps(choices, family)),
    ],
    chains: [
      ...(choices.length === 0 ? [] : untrackedChains(plan)),
      inputChain(plan, interfaces),
      ...(interfaces.length === 0 ? [] : [answerChain(facts)]),
      ...(choices.length === 0 ? [] : [choiceChain(plan)]),
      ...(plan.originatingOnly ? [refuseChain(plan)] : []),
    ],
  };
}

function senderSet(plan: ClientPlan, family: Family): NftSet {
  const { set } = SENDERS[family];
  const elements = plan.senders
    .filter((sender) => sender.family === family).map((sender) => [sender]);
  return { name: set, key: [`${family}_addr`], elements };
}

function interfaceSet(interfaces: readonly ClientInterface[]): NftSet {
  const elements = interfaces.map(({ index }) => [index]);
  return { name: INTERFACES, key: ["mark"], elements };
}

/**
 * On input, not before: what comes here is addressed to the pod, and IPv4
 * fragments are whole again. What a tunnel unpacks comes here by itself.
 */
function inputChain(
  plan: ClientPlan,
  interfaces: readonly ClientInterface[],
): NftChain {
  return {
    name: "input",
    type: "filter",
    hook: "input",
    priority: MANGLE,
    policy: "accept",
    rules: [
      ...plan.tunnelFamilies.flatMap((family) => senderRules(family, plan)),
      ...plan.receiverFamilies.flatMap(plainRules),
      ...interfaces.length === 0 ? [] : [leftToCoordinator(nft.ctMark)],
      // Only what the other side began: an own connection that left by another
      // way before the pod was a client must not be kept there.
      ...interfaces.map(({ name, index }) =>
        nft.rule([
          nft.iifname(name),
          nft.ctDirection("original"),
          nft.setCtMark(index),
        ])
      ),
      ...plan.receiverFamilies.flatMap((family) =>
        tunnelledRules(family, plan, interfaces.length > 0)
      ),
    ],
  };
}

/**
 * Where the client chooses, a connection without a mark learns its gateway from
 * what comes by it.
 *
 * No connection begins at the far end of a tunnel: this is one of the pod's own
 * that the kernel has forgotten, and what is said to it (by TCP that it has no
 * such connection, for example) must not leave as an answer to a visitor would.
 */
function tunnelledRules(
  family: Family,
  { choices }: ClientPlan,
  hasInterfaces: boolean,
): NftRule[] {
  const { receiver, prefix } = TUNNEL_LINKS[family];
  const unmarked = choices.length === 0 ? [] : [nft.ctMark(0)];
  return [receiver, `${prefix}*`].flatMap((link) => [
    ...choices.length === 0
      ? []
      : [nft.rule([nft.iifname(link), ...unmarked, nft.saveMark()])],
    ...hasInterfaces
      ? [nft.rule([
        nft.iifname(link),
        nft.ctDirection("original"),
        ...unmarked,
        nft.setCtMark(EGRESS_TUNNELLED_MARK),
      ])]
      : [],
  ]);
}

function senderRules(
  family: Family,
  { port, choices }: ClientPlan,
): NftRule[] {
  const { set } = SENDERS[family];
  return [
    ...choices.length === 0 ? [] : [arrivalRule(family, port)],
    nft.rule([
      nft.udpDport(port),
      nft.inSet([nft.saddrField(family)], set),
      ...choices.length === 0 ? [] : [nft.setMetaMark(0)],
      nft.accept(),
    ]),
    refuse(family, nft.udpDport(port)),
  ];
}

/** A receiver unpacks tunnelled packets without UDP too, which no gateway sends. */
function plainRules(family: Family): NftRule[] {
  return SENDERS[family].plain.map((protocol) =>
    refuse(family, nft.l4proto(protocol))
  );
}

function refuse(family: Family, what: NftStatement): NftRule {
  const counter = nft.counter(FOREIGN_FOU_COUNTER);
  return nft.rule([nft.nfproto(family), what, counter, nft.drop()]);
}

/**
 * Choosing needs the connections inside tracked. The datagrams around them are
 * not: two entries more for each would fill the kernel's table three times as
 * fast, and they go to the gateway of each packet, not of its source port. They
 * have the mark of the packet inside (skb_scrub_packet() in net/core/skbuff.c).
 */
function untrackedChains(plan: ClientPlan): NftChain[] {
  const { ifname, port, tunnelFamilies } = plan;
  const chain = { type: "filter", priority: RAW, policy: "accept" } as const;
  const rule = (link: NftStatement) =>
    nft.rule([link, nft.udpDport(port), nft.notrack()]);
  return [
    {
      ...chain,
      name: "untracked_in",
      hook: "prerouting",
      rules: [rule(nft.iifname(ifname))],
    },
    {
      ...chain,
      name: "untracked_out",
      hook: "output",
      rules: [
        rule(nft.oifname(ifname)),
        nft.rule([nft.metaMark(0), nft.accept()]),
        ...tunnelFamilies.map((family) => gatewayRule(family, port)),
      ],
    },
  ];
}

const OUTPUT = { hook: "output", policy: "accept" } as const;

/** What came in by an interface is answered by it. Type `route`: a packet that got a mark is routed once more, by the rule for the mark. */
function answerChain(
  { interfaces, ownPortsFrom = OWN_PORTS_FROM }: TableFacts,
): NftChain {
  return {
    ...OUTPUT,
    name: "answers",
    type: "route",
    priority: ANSWERS,
    rules: [
      leftToCoordinator(nft.ctMark),
      // What came in by a tunnel leaves as if there were no mode: by the rules for its destination.
      nft.rule([nft.ctMark(EGRESS_TUNNELLED_MARK), nft.accept()]),
      nft.rule([nft.ctMarkBits(EGRESS_GATEWAY_MARK_BIT), nft.accept()]),
      ...interfaces.flatMap((each) => resumeRules(each, ownPortsFrom)),
      nft.rule([nft.inSet(["ct mark"], INTERFACES), nft.restoreMark()]),
    ],
  };
}

/** The same for all clients of the same gateways, with any interfaces: it is replaced without a look at them. */
function choiceChain(
  { choices, ifname, originatingOnly }: ClientPlan,
): NftChain {
  return {
    ...OUTPUT,
    name: CHOICE_CHAIN,
    type: "filter",
    priority: MANGLE,
    rules: [
      // What leaves without a tunnel, and the datagrams around what has passed here.
      nft.rule([nft.oifname(ifname), nft.accept()]),
      // No connection that is not the pod's own has a gateway's mark.
      ...choices.map(readyRule),
      leftToCoordinator(nft.ctMark),
      ...(originatingOnly
        ? [nft.rule([nft.inSet(["ct mark"], INTERFACES), nft.accept()])]
        : []),
      ...choices.flatMap(choiceRules),
    ],
  };
}

/** What came in from the node of an underlay pod is answered that way: its own table sees to it. */
function leftToCoordinator(hasMark: (mark: number) => NftStatement): NftRule {
  return nft.rule([hasMark(COORDINATOR_MARK), nft.accept()]);
}

/**
 * For connections that are older than the mode, when the pod speaks first.
 *
 * If the connection was tracked before the mode, it is known which side opened it;
 * an ICMP error that refuses a packet of the pod's own is `related`, not a reply.
 * Otherwise tracking begins in the middle of the connection, as it does after a
 * long silence, and takes the pod for its opener. The source port decides then: a
 * connection of the pod's own has a port of the kernel's range, an answer that of a server.
 */
function resumeRules(
  { addresses, index }: ClientInterface,
  ownPortsFrom: number,
): NftRule[] {
  return addresses.flatMap((address) => [
    nft.rule([
      nft.saddr(address),
      nft.ctState("established"),
      nft.ctDirection("reply"),
      nft.setCtMark(index),
    ]),
    nft.rule([
      nft.saddr(address),
      nft.ctState("new"),
      nft.tcpNotSyn(),
      nft.tcpSportBelow(ownPortsFrom),
      nft.setCtMark(index),
    ]),
  ]);
}

/**
 * What still goes to a receiver is refused. Answers have been given another way
 * by now, but the kernel shows them with the link they had before, to the end
 * of the hook: they are known by their mark. (Without this chain the receiver
 * would drop it all: it sends nothing.)
 */
function refuseChain({ receiverFamilies }: ClientPlan): NftChain {
  return {
    name: "refuse",
    type: "filter",
    hook: "output",
    priority: FILTER,
    policy: "accept",
    rules: [
      leftToCoordinator(nft.metaMark),
      nft.rule([nft.inSet(["meta mark"], INTERFACES), nft.accept()]),
      ...receiverFamilies.map((family) =>
        nft.rule([
          nft.oifname(TUNNEL_LINKS[family].receiver),
          nft.reject("host-unreachable"),
        ])
      ),
    ],
  };
}
