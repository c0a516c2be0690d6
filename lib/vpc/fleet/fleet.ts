import type { Prefix } from "../../inet/mod.ts";
import { type Action, type EniCall, isOpen, SETTLE_MS } from "./calls.ts";
import {
  type BlockKind,
  type Ec2Eni,
  type Eni,
  type EniAttachment,
  type Grant,
  kindOf,
  sizeOf,
} from "./eni.ts";
import type { Limits } from "./limits.ts";
import type { Pace } from "./pace.ts";
import { type Counts, type Targets, without } from "./targets.ts";

/** How pods use a block that was adopted: one that both EC2 and the metadata service have shown. */
export interface BlockUse {
  readonly block: Prefix;
  /** Addresses that pods have. */
  readonly used: number;
  /** Addresses that rest. */
  readonly cooling: number;
  /** Since when none is used or rests. */
  readonly emptySince?: number | undefined;
  /** Whether no more addresses of it are given: it goes back. */
  readonly retired: boolean;
}

/** All that a plan is made from. */
export interface Situation {
  readonly now: number;
  /** When this process began to make calls. */
  readonly startedAt: number;
  /** By {@linkcode mergeEnis}, of EC2's list by {@linkcode withAnswers}. */
  readonly enis: readonly Eni[];
  /** When EC2's list was asked for. */
  readonly lookedAt: number;
  /** By the text of their blocks. */
  readonly uses: ReadonlyMap<string, BlockUse>;
  /** Pods that wait for an address, or are going to ask for one. */
  readonly waiting: number;
  readonly limits: Limits;
  readonly targets: Targets;
  /** The subnet of new ENIs: the primary's. */
  readonly subnet: string;
  /** Whether pods get IPv4 addresses. Without, the /80 of one ENI is all that EC2 is asked for. */
  readonly ipv4: boolean;
  /** Whether pods get IPv6 addresses, so that each ENI needs a /80. */
  readonly ipv6: boolean;
  /** This process' calls that are not settled, in the order in which they ended. */
  readonly calls: readonly EniCall[];
  readonly pace: Pace;
  /** For how long a block must have been empty before it goes back. */
  readonly returnDelayMs: number;
  /** Whether ENIs may come and go; not on a cordoned node. */
  readonly attaches: boolean;
  /** Whether EC2 may be asked for anything, or given anything back. Default true. */
  readonly provisions?: boolean | undefined;
}

/**
 * Where an ENI is on its way, derived from what is seen:
 *
 * - `loose`: no instance has it: just created, or to be deleted
 * - `unseen`: EC2 has attached it, the metadata service does not show it
 * - `draining`: all its blocks go back
 * - `gone`: only the metadata service shows it
 */
export type EniState =
  | "loose"
  | "attaching"
  | "unseen"
  | "ready"
  | "draining"
  | "detaching"
  | "gone";

/** A block of an ENI, and how it is used; not adopted yet without `use`. */
export interface Slot extends Grant {
  readonly use?: BlockUse | undefined;
}

/** An ENI of the node that gives addresses. */
export interface Member {
  readonly id: string;
  readonly ec2: Ec2Eni;
  readonly state: EniState;
  readonly attachment: EniAttachment;
  readonly slots: readonly Slot[];
  readonly hasIpv6: boolean;
}

/** A situation with what follows from it. */
export interface Fleet extends Situation {
  readonly members: readonly Member[];
  /** ENIs that wait for the end of a call. */
  readonly busy: ReadonlySet<string>;
  /** Calls that add something and have not shown what yet. */
  readonly growing: readonly Action[];
  /** What the members have. */
  readonly counts: Counts;
}

/** An ENI that the metadata service does not show for so long does not count. */
export const UNSEEN_MS = 120_000;

/** Derives what follows from a situation. */
export function fleetOf(situation: Situation): Fleet {
  const { calls, lookedAt } = situation;
  const members = membersOf(situation);
  const open = calls.filter((call) => isOpen(call, lookedAt))
    .map(({ action }) => action);
  return {
    ...situation,
    members,
    busy: new Set(
      open.flatMap((action) => action.kind === "create" ? [] : action.eni),
    ),
    growing: open.filter(({ kind }) =>
      ["create", "attach", "assign"].includes(kind)
    ),
    counts: countsOf(members, situation),
  };
}

/** The ENI's state. */
export function stateOf(
  eni: Eni,
  uses: ReadonlyMap<string, BlockUse>,
): EniState {
  if (eni.ec2 === undefined) return "gone";
  const { attachment } = eni.ec2;
  if (attachment === undefined) return "loose";
  if (attachment.state !== "attached") return attachment.state;
  if (!eni.inImds) return "unseen";
  const slots = slotsOf(eni, uses).filter(({ inEc2 }) => inEc2);
  const drains = slots.length > 0 && slots.every(({ use }) => use?.retired);
  return drains ? "draining" : "ready";
}

function slotsOf(eni: Eni, uses: ReadonlyMap<string, BlockUse>): Slot[] {
  return eni.grants.map((grant) => ({
    ...grant,
    use: uses.get(String(grant.block)),
  }));
}

/** The node's ENIs that give addresses, lowest device first. */
export function membersOf(
  { enis, uses }: Pick<Situation, "enis" | "uses">,
): Member[] {
  return enis.flatMap((eni) => {
    const { id, ec2 } = eni;
    const attachment = ec2?.attachment;
    if (ec2 === undefined || attachment === undefined) return [];
    if (ec2.ownership === "foreign" || attachment.state === "detaching") {
      return [];
    }
    const hasIpv6 = eni.ipv6?.inEc2 ?? false;
    const state = stateOf(eni, uses);
    const slots = slotsOf(eni, uses);
    return [{ id, ec2, state, attachment, slots, hasIpv6 }];
  });
}

/** Whether EC2's list may lack what an earlier process did. */
export function isSettling({ lookedAt, startedAt }: Situation): boolean {
  return lookedAt < startedAt + SETTLE_MS;
}

/**
 * Empty blocks that an earlier process may have given back just before it ended: EC2's list may still have them. Until
 * that is settled no address of them is given. A block with an address in use, or one that this process was granted, is
 * in no doubt, nor is a /80: none is given back.
 */
export function doubtfulBlocks(situation: Situation): Set<string> {
  if (!situation.ipv4 || !isSettling(situation)) return new Set();
  const granted = situation.calls.flatMap(({ ended }) => {
    if (ended?.outcome.kind !== "done") return [];
    const { blocks = [], eni } = ended.outcome;
    return [...blocks, ...eni?.blocks ?? []];
  });
  const inUse = [...situation.uses.values()]
    .filter(({ used, cooling }) => used + cooling > 0)
    .map(({ block }) => block);
  const certain = new Set([...granted, ...inUse].map(String));
  return new Set(
    situation.enis.flatMap(({ grants }) => grants)
      .map(({ block }) => String(block))
      .filter((text) => !certain.has(text)),
  );
}

/** What some ENIs have for pods. Blocks that go back count no more. */
export function countsOf(
  members: readonly Member[],
  { now, waiting }: Pick<Situation, "now" | "waiting">,
): Counts {
  const counts = {
    total: 0,
    used: 0,
    cooling: 0,
    waiting,
    prefixes: 0,
    freePrefixes: 0,
  };
  for (const member of members) {
    for (const { block, inEc2, use } of member.slots) {
      if (use?.retired === true) continue;
      const { used = 0, cooling = 0 } = use ?? {};
      const kind = kindOf(block);
      // A block that EC2 does not show any longer has nothing to give.
      const gives = inEc2 && (use !== undefined || !isLost(member, now));
      counts.total += gives ? sizeOf(kind) : used + cooling;
      counts.used += used;
      counts.cooling += cooling;
      if (kind === "prefix" && gives) {
        counts.prefixes += 1;
        if (used === 0) counts.freePrefixes += 1;
      }
    }
  }
  return counts;
}

/** Whether the ENI should have been seen by now. */
export function isLost(
  { state, attachment }: Member,
  now: number,
): boolean {
  return (state === "unseen" || state === "attaching") &&
    now >= attachment.since + UNSEEN_MS;
}

/** The counts when these calls have done what they should. */
export function withGrowth(
  counts: Counts,
  actions: readonly Action[],
  enis: readonly Eni[],
): Counts {
  let all = counts;
  for (const action of actions) {
    if (action.kind === "attach") {
      const eni = enis.find(({ id }) => id === action.eni);
      // An attachment that is shown counts by itself.
      if (eni?.ec2?.attachment !== undefined) continue;
      for (const { block } of eni?.grants ?? []) all = plus(all, kindOf(block));
    } else if (action.kind === "create") {
      all = plus(all, action.what, action.count);
    } else if (action.kind === "assign" && action.what !== "ipv6") {
      all = plus(all, action.what, action.count);
    }
  }
  return all;
}

function plus(counts: Counts, kind: BlockKind, blocks = 1): Counts {
  return without(counts, kind, -blocks);
}
