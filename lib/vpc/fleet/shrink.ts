import type { Prefix } from "../../inet/mod.ts";
import type { Action } from "./calls.ts";
import { kindOf } from "./eni.ts";
import {
  type Fleet,
  isLost,
  isSettling,
  type Member,
  type Slot,
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
export function retire(fleet: Fleet): Prefix[] {
  if (fleet.growing.length > 0 || isSettling(fleet)) return [];
  let { counts } = fleet;
  const retired: Prefix[] = [];
  for (const member of fleet.members.toReversed()) {
    const idle = idleBlocks(member, fleet);
    const rest = lessBlocks(counts, idle);
    const goes = idle.length > 0 && mayDetach(member, fleet) &&
      isAll(idle, member) && mayLoseEni(fleet, counts, rest);
    if (goes) {
      retired.push(...idle);
      counts = rest;
      continue;
    }
    for (const { block, use } of unusedSlots(member).toReversed()) {
      const { cooling = 0 } = use ?? {};
      const rested = { ...counts, cooling: counts.cooling - cooling };
      if (!mayLoseBlock(fleet, rested, kindOf(block))) continue;
      // One that rests goes later: those of lower devices stay in its place.
      if (idle.includes(block)) retired.push(block);
      counts = lessBlocks(rested, [block]);
    }
  }
  return retired;
}

function lessBlocks(counts: Counts, blocks: readonly Prefix[]): Counts {
  return blocks.reduce((less, b) => without(less, kindOf(b)), counts);
}

/** Blocks without a used address, lowest first. */
function unusedSlots({ slots }: Member): Slot[] {
  return slots.filter(({ inEc2, use }) =>
    inEc2 && use?.retired === false && use.used === 0
  );
}

/** Blocks that have been empty for long enough, lowest first. */
function idleBlocks(
  member: Member,
  { now, returnDelayMs }: Fleet,
): Prefix[] {
  const idle = unusedSlots(member).filter((slot) => {
    const { emptySince = Infinity } = slot.use ?? {};
    return isEmpty(slot) && now >= emptySince + returnDelayMs;
  });
  return idle.map(({ block }) => block);
}

/** Whether no pod has an address of the block, and none rests. */
function isEmpty({ use }: Slot): boolean {
  return use === undefined || (use.used === 0 && use.cooling === 0);
}

/** Whether the ENI has no other blocks than these and those that go back already. */
function isAll(idle: readonly Prefix[], { slots }: Member): boolean {
  return slots.every(({ block, inEc2, use }) =>
    !inEc2 || use?.retired === true || idle.includes(block)
  );
}

function mayDetach({ ec2, attachment }: Member, fleet: Fleet): boolean {
  const { now, attaches } = fleet;
  return attaches && ec2.ownership === "owned" &&
    now >= attachment.since + MIN_ATTACHED_MS;
}

/**
 * Gives back what is retired, and what was left by an earlier process. An ENI that is no longer needed goes with all its
 * blocks; while addresses are `short` it stays, since room on it is worth more than a new one.
 */
export function giveBack(
  fleet: Fleet,
  { short }: { readonly short: boolean },
): Action[] {
  const actions = fleet.members.toReversed().flatMap(
    (member): Action[] => {
      const leaves = !isSettling(fleet) && mayDetach(member, fleet) &&
        (isAbandoned(member, fleet) || (!short && isDrained(member)));
      const { id: eni, attachment } = member;
      if (leaves) return [{ kind: "detach", eni, attachment: attachment.id }];
      const blocks = returnable(member);
      return blocks.length > 0 ? [{ kind: "unassign", eni, blocks }] : [];
    },
  );
  // One that a call under way has created looks the same until its answer comes.
  const creates = fleet.growing.some(({ kind }) => kind === "create");
  if (isSettling(fleet) || creates || !fleet.attaches) return actions;
  const useless = looseEnis(fleet)
    .filter(({ id }) => !short || !mayAttach(id, fleet));
  return [...actions, ...useless.map(({ id }) => remove(id))];
}

/** Whether a loose ENI can be attached soon. */
function mayAttach(eni: string, fleet: Fleet): boolean {
  const { pace, now } = fleet;
  const attach = { kind: "attach", eni, device: 0 } as const;
  return placesLeft(fleet, []) > 0 &&
    pausedUntil(pace, attach) <= now + PATIENCE_MS;
}

function remove(eni: string): Action {
  return { kind: "delete", eni };
}

/** Whether all blocks of the ENI go back and no pod has an address of them. */
function isDrained(member: Member): boolean {
  return isAll([], member) && member.slots.every(isEmpty);
}

/** Whether the ENI was never seen, so that no pod has an address of it. */
function isAbandoned(member: Member, { now }: Fleet): boolean {
  return isLost(member, now) && member.slots.every(({ use }) => !use);
}

function returnable({ slots }: Member): Prefix[] {
  return slots.filter((slot) =>
    slot.inEc2 && slot.use?.retired === true && isEmpty(slot)
  ).map(({ block }) => block);
}
