import type { Prefix } from "../../inet/mod.ts";
import type { Action } from "./calls.ts";
import { kindOf } from "./eni.ts";
import {
  type BlockUse,
  countsOf,
  growing,
  isLost,
  isSettling,
  type Member,
  membersOf,
  type Situation,
} from "./fleet.ts";
import { looseEnis, placesLeft } from "./grow.ts";
import { pausedUntil } from "./pace.ts";
import { type Counts, mayLoseBlock, mayLoseEni, without } from "./targets.ts";

/** An ENI stays attached for at least so long, as upstream's. */
export const MIN_ATTACHED_MS = 60_000;

/** An ENI that cannot be attached for so long is deleted. */
const PATIENCE_MS = 30_000;

/**
 * Blocks that are not needed: no more addresses are to be given of them. Of the highest device first, whole ENIs before
 * parts of them; none while anything grows.
 */
export function retire(situation: Situation): Prefix[] {
  if (growing(situation).length > 0 || isSettling(situation)) return [];
  const members = membersOf(situation);
  let counts = countsOf(members, situation);
  const retired: Prefix[] = [];
  for (const member of members.toReversed()) {
    const idle = idleBlocks(member, situation);
    const rest = lessBlocks(counts, idle);
    const goes = idle.length > 0 && mayDetach(member, situation) &&
      isAll(idle, member) && mayLoseEni(situation, counts, rest);
    if (goes) {
      retired.push(...idle);
      counts = rest;
      continue;
    }
    for (const block of idle.toReversed()) {
      if (!mayLoseBlock(situation, counts, kindOf(block))) continue;
      retired.push(block);
      counts = lessBlocks(counts, [block]);
    }
  }
  return retired;
}

function lessBlocks(counts: Counts, blocks: readonly Prefix[]): Counts {
  return blocks.reduce((less, b) => without(less, kindOf(b)), counts);
}

/** Blocks that have been empty for long enough, lowest first. */
function idleBlocks(
  { grants, uses }: Member,
  { now, returnDelayMs }: Situation,
): Prefix[] {
  return grants.filter(({ block, inEc2 }) => {
    const use = uses.get(String(block));
    if (!inEc2 || use === undefined || use.retired || !isEmpty(use)) {
      return false;
    }
    return now >= (use.emptySince ?? Infinity) + returnDelayMs;
  }).map(({ block }) => block);
}

function isEmpty({ used, cooling }: BlockUse): boolean {
  return used === 0 && cooling === 0;
}

function isUnused({ uses }: Member): boolean {
  return [...uses.values()].every(isEmpty);
}

/** Whether the ENI has no other blocks than these and those that go back already. */
function isAll(idle: readonly Prefix[], { grants, uses }: Member): boolean {
  const texts = new Set(idle.map(String));
  return grants.filter(({ inEc2 }) => inEc2).every(({ block }) => {
    const text = String(block);
    return texts.has(text) || uses.get(text)?.retired === true;
  });
}

function mayDetach({ ec2, attachment }: Member, situation: Situation): boolean {
  const { now, attaches } = situation;
  return attaches && ec2.ownership === "owned" &&
    now >= attachment.since + MIN_ATTACHED_MS;
}

/**
 * Gives back what is retired, and what was left by an earlier process. An ENI that is no longer needed goes with all its
 * blocks; while addresses are `short` it stays, since room on it is worth more than a new one.
 */
export function giveBack(
  situation: Situation,
  { short }: { readonly short: boolean },
): Action[] {
  const actions = membersOf(situation).toReversed().flatMap(
    (member): Action[] => {
      const leaves = !isSettling(situation) && mayDetach(member, situation) &&
        (isAbandoned(member, situation) || (!short && isDrained(member)));
      const { id: eni, attachment } = member;
      if (leaves) return [{ kind: "detach", eni, attachment: attachment.id }];
      const blocks = returnable(member);
      return blocks.length > 0 ? [{ kind: "unassign", eni, blocks }] : [];
    },
  );
  if (isSettling(situation) || !situation.attaches) return actions;
  const useless = looseEnis(situation)
    .filter(({ id }) => !short || !mayAttach(id, situation));
  return [...actions, ...useless.map(({ id }) => remove(id))];
}

/** Whether a loose ENI can be attached soon. */
function mayAttach(eni: string, situation: Situation): boolean {
  const { pace, now } = situation;
  const attach = { kind: "attach", eni, device: 0 } as const;
  return placesLeft(situation, []) > 0 &&
    pausedUntil(pace, attach) <= now + PATIENCE_MS;
}

function remove(eni: string): Action {
  return { kind: "delete", eni };
}

/** Whether all blocks of the ENI go back and no pod has an address of them. */
function isDrained(member: Member): boolean {
  return isAll([], member) && isUnused(member);
}

/** Whether the ENI was never seen, so that no pod has an address of it. */
function isAbandoned(member: Member, { now }: Situation): boolean {
  return isLost(member, now) && member.uses.size === 0;
}

function returnable({ grants, uses }: Member): Prefix[] {
  return grants.filter(({ block, inEc2 }) => {
    const use = uses.get(String(block));
    return inEc2 && use?.retired === true && isEmpty(use);
  }).map(({ block }) => block);
}
