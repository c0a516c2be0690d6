import { createHash } from "node:crypto";
import type { Address, Family } from "../../inet/mod.ts";
import {
  EGRESS_GATEWAY_MARK_BIT,
  EGRESS_GATEWAY_MARK_PRIORITY,
} from "../../names/mod.ts";
import {
  nft,
  type NftRule,
  type NftSet,
  type NftStatement,
  type Rule,
} from "../../netlink/mod.ts";

/**
 * How new connections are spread over the gateways of one Egress. Packets come
 * to the tunnel to its Service first; those of a connection with the mark of a
 * gateway are routed again, by that gateway's own table.
 */
export interface GatewayChoice {
  readonly family: Family;
  /** The tunnel to the Service. */
  readonly tunnel: string;
  /** Marks of the gateways that new connections go to. None: they go to the Service. */
  readonly ready: readonly number[];
  /** Marks of all gateways whose connections stay where they are. */
  readonly all: readonly number[];
  /** Marks of those of them that do not answer. A start of coild knows them by the set in the kernel. */
  readonly lost: readonly number[];
  /** Whether connections stay with a lost gateway, too. */
  readonly keepsLost: boolean;
}

/** The mark of connections through a gateway, and the number of its route table: the same for an address every time. */
export function gatewayMark(address: Address): number {
  const digest = createHash("sha1").update(address.toBytes()).digest();
  return (digest.readUInt32BE() | EGRESS_GATEWAY_MARK_BIT) >>> 0;
}

/** Whether a number is a mark of {@linkcode gatewayMark}. */
export function isGatewayMark(mark: number): boolean {
  return mark >= EGRESS_GATEWAY_MARK_BIT;
}

/** The rule by which marked connections go to their gateway. */
export function markRule(family: Family, mark: number): Rule {
  const priority = EGRESS_GATEWAY_MARK_PRIORITY;
  return { family, priority, fwmark: mark, table: mark };
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
  const names = setNames(tunnel);
  return [
    setOf(names.ready, ready),
    setOf(names.all, all),
    setOf(names.lost, lost),
  ];
}

function setNames(tunnel: string) {
  return {
    ready: `ready_${tunnel}`,
    all: `gateways_${tunnel}`,
    lost: lostSetName(tunnel),
  };
}

/** The set of marks of lost gateways. */
export function lostSetName(tunnel: string): string {
  return `lost_${tunnel}`;
}

/**
 * The rules of a choice, in a chain of type `route`. A connection that has had
 * an answer stays with its gateway for as long as there is that gateway; until
 * the first answer it leaves a gateway that is not ready. What is not TCP leaves
 * a gateway that is lost at once; TCP, which cannot, waits there to be ended.
 * Connections from before the choice have no mark, and stay with the Service;
 * where no gateway is ready, others go there, too.
 */
export function choiceRules(
  { tunnel, ready, keepsLost }: GatewayChoice,
): NftRule[] {
  const names = setNames(tunnel);
  const rule = (...statements: readonly NftStatement[]) =>
    nft.rule([nft.oifname(tunnel), ...statements, nft.accept()]);
  const answered = nft.ctState("established", "related");
  const stays = (set: string) => nft.inSet(["ct mark"], set);
  const isLive = nft.inSet(["ct mark"], names.lost, { not: true });
  const staysWithLost = keepsLost ? [] : [nft.l4proto("tcp")];
  return [
    rule(answered, stays(names.all), isLive, nft.restoreMark()),
    rule(answered, ...staysWithLost, stays(names.all), nft.restoreMark()),
    rule(stays(names.ready), nft.restoreMark()),
    rule(answered, nft.ctMark(0)),
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
