import { createHash } from "node:crypto";
import { type Address, distinct, type Family } from "../../inet/mod.ts";
import { EGRESS_GATEWAY_MARK_BIT } from "../../names/mod.ts";
import {
  nft,
  type NftRule,
  type NftSet,
  type NftStatement,
} from "../../netlink/mod.ts";

/**
 * How new connections are spread over the gateways of one Egress. All packets
 * go into the tunnel to its Service; a datagram around one of a connection with
 * the mark of a gateway gets that gateway's address in place of the Service's.
 */
export interface GatewayChoice {
  /** The tunnel to the Service. */
  readonly tunnel: string;
  /** Marks of the gateways that new connections go to. None: they go to the Service. */
  readonly ready: readonly number[];
  /** All gateways whose connections stay where they are. */
  readonly all: readonly Address[];
  /** Marks of those of them that do not answer. A start of coild knows them by the set in the kernel. */
  readonly lost: readonly number[];
  /** Whether connections stay with a lost gateway, too. */
  readonly keepsLost: boolean;
}

/** Marks that were computed, by their addresses: all clients of a node have the same few gateways. */
const MARKS: Readonly<Record<Family, Map<bigint, number>>> = {
  ipv4: new Map(),
  ipv6: new Map(),
};
const MOST_MARKS = 4_096;

/** The mark of connections through a gateway: the same for an address every time. */
export function gatewayMark(address: Address): number {
  const marks = MARKS[address.family];
  const known = marks.get(address.value);
  if (known !== undefined) return known;
  const digest = createHash("sha1").update(address.toBytes()).digest();
  const mark = (digest.readUInt32BE() | EGRESS_GATEWAY_MARK_BIT) >>> 0;
  // mutate: only frees memory.
  if (marks.size >= MOST_MARKS) marks.clear();
  marks.set(address.value, mark);
  return mark;
}

/** The gateways that a client chooses from; two Egresses may name one. */
function gatewaysOf(choices: readonly GatewayChoice[]): Address[] {
  return distinct(choices.flatMap(({ all }) => all));
}

/** Maps from the addresses of a family's gateways to their marks, and back. */
const MAPS: Readonly<
  Record<Family, { readonly marks: string; readonly addresses: string }>
> = {
  ipv4: { marks: "marks4", addresses: "addresses4" },
  ipv6: { marks: "marks6", addresses: "addresses6" },
};

/**
 * The maps that the rules of all choices look into: so a packet meets as many
 * rules with sixty gateways as with one, but for the choice itself.
 */
export function gatewayMaps(
  choices: readonly GatewayChoice[],
  family: Family,
): NftSet[] {
  if (choices.length === 0) return [];
  const { marks, addresses } = MAPS[family];
  const type = `${family}_addr` as const;
  const gateways = gatewaysOf(choices)
    .filter((address) => address.family === family)
    .map((address) => [address, gatewayMark(address)] as const);
  // Of two gateways with one mark the first gets what has it.
  const byMark = new Map(
    gateways.toReversed().map(([address, mark]) => [mark, address]),
  );
  return [
    { name: marks, key: [type], value: "mark", elements: gateways },
    { name: addresses, key: ["mark"], value: type, elements: [...byMark] },
  ];
}

/** The rule that sends the datagrams around marked packets to their gateways. */
export function gatewayRule(family: Family, port: number): NftRule {
  const target = nft.daddrField(family);
  const map = MAPS[family].addresses;
  return nft.rule([
    nft.udpDport(port),
    nft.setByMap(target, { field: "meta mark", map }),
    nft.accept(),
  ]);
}

/**
 * The rule that lets the datagrams of a family's gateways in. What is in them
 * keeps their marks: that is how a connection without one learns its gateway.
 */
export function arrivalRule(family: Family, port: number): NftRule {
  const field = nft.saddrField(family);
  const map = MAPS[family].marks;
  return nft.rule([
    nft.udpDport(port),
    nft.setByMap("meta mark", { field, map }),
    nft.accept(),
  ]);
}

/** The sets that the rules of a choice look into. */
export function choiceSets(
  { tunnel, ready, all, lost }: GatewayChoice,
): NftSet[] {
  const setOf = (name: string, marks: readonly number[]): NftSet => ({
    name,
    key: ["mark"],
    elements: marks.map((mark) => [mark]),
  });
  return [
    setOf(readySetName(tunnel), ready),
    setOf(gatewaySetName(tunnel), all.map(gatewayMark)),
    setOf(lostSetName(tunnel), lost),
  ];
}

function readySetName(tunnel: string): string {
  return `ready_${tunnel}`;
}

/** The set of marks of all gateways. */
export function gatewaySetName(tunnel: string): string {
  return `gateways_${tunnel}`;
}

/** The set of marks of lost gateways. */
export function lostSetName(tunnel: string): string {
  return `lost_${tunnel}`;
}

/** The rule of a choice that comes before those of all choices: most packets go no further. */
export function readyRule({ tunnel }: GatewayChoice): NftRule {
  return ruleOf(tunnel)(isMarkIn(readySetName(tunnel)), nft.restoreMark());
}

function ruleOf(tunnel: string) {
  return (...statements: readonly NftStatement[]): NftRule =>
    nft.rule([nft.oifname(tunnel), ...statements, nft.accept()]);
}

function isMarkIn(set: string): NftStatement {
  return nft.inSet(["ct mark"], set);
}

/**
 * The rules of a choice behind {@linkcode readyRule}, on output. A connection
 * that has had an answer stays with its gateway for as long as there is that
 * gateway; until the first answer it leaves a gateway that is not ready. What is not TCP leaves
 * a gateway that is lost at once; TCP, which cannot, waits there to be ended.
 * Connections from before the choice have no gateway's mark, and go by the
 * Service until they learn one from what comes; so does TCP that the kernel
 * sees in the middle. But not while a gateway is lost: the kernel has been made
 * to forget that one's, and by another gateway they end.
 * Where no gateway is ready, others go to the Service, too.
 */
export function choiceRules(
  { tunnel, ready, lost, keepsLost }: GatewayChoice,
): NftRule[] {
  const rule = ruleOf(tunnel);
  const answered = nft.ctState("established", "related");
  const isWithout = nft.ctMarkLacks(EGRESS_GATEWAY_MARK_BIT);
  const isOfOne = isMarkIn(gatewaySetName(tunnel));
  const isLive = nft.inSet(["ct mark"], lostSetName(tunnel), { not: true });
  const staysWithLost = keepsLost ? [] : [nft.l4proto("tcp")];
  return [
    rule(answered, isOfOne, isLive, nft.restoreMark()),
    rule(answered, ...staysWithLost, isOfOne, nft.restoreMark()),
    rule(answered, isWithout),
    ...(lost.length === 0
      ? [rule(nft.ctState("new"), nft.tcpNotSyn(), isWithout)]
      : []),
    ...ready.map((mark, i) =>
      rule(
        ...oneOf(ready.length - i),
        nft.setCtMark(mark),
        nft.restoreMark(),
      )
    ),
    ...(ready.length === 0 ? [rule(nft.setCtMark(0))] : []),
  ];
}

/** Applies to one of so many packets, by chance. */
function oneOf(count: number): NftStatement[] {
  return count === 1 ? [] : [nft.random(Math.floor(2 ** 32 / count))];
}
