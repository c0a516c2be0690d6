import type { Action } from "./calls.ts";
import { type BlockKind, type Eni, sizeOf } from "./eni.ts";
import {
  busyEnis,
  countsOf,
  growing,
  isLost,
  isSettling,
  type Member,
  membersOf,
  type Situation,
  withGrowth,
} from "./fleet.ts";
import { slotsOf } from "./limits.ts";
import { atMostOf, exhaustedUntil, pausedUntil } from "./pace.ts";
import { fillsEnis, shortOf, urgentOf } from "./targets.ts";

/** What a node needs more of. */
export interface Growth {
  readonly actions: readonly Action[];
  /** Addresses that are short when all of it is done. */
  readonly short: number;
  /** How many of these do not come by calls that are under way, and why. */
  readonly unmet?: Unmet | undefined;
}

/**
 * Addresses that a node lacks:
 *
 * - `limit`: its ENIs are full, and it may have no more
 * - `subnet`: the subnet had no block when it was last asked
 * - `paused`: calls failed; they are made again later
 */
export interface Unmet {
  readonly addresses: number;
  readonly why: "limit" | "subnet" | "paused";
}

/** More addresses, in this order: by an ENI that is there already, by room on attached ones, by new ENIs. */
export function grow(situation: Situation): Growth {
  const actions: Action[] = [];
  const members = membersOf(situation);
  const busy = busyEnis(situation);
  const short = (): number => shortWith(situation, members, actions);
  const unused = (): number => unusedRoom(situation, actions);

  for (const eni of looseEnis(situation)) {
    if (short() > 0) actions.push(...attach(eni, situation, actions));
  }
  // Where a call is under way there will be room afterwards: no new ENI for that.
  let later = 0;
  for (const member of members) {
    const left = short() - later - unused();
    if (left <= 0 || isLost(member, situation.now)) continue;
    if (busy.has(member.id) || member.state === "draining") {
      later += roomLater(member, situation);
    } else actions.push(...assign(member, situation, { short: left, actions }));
  }
  for (;;) {
    const left = short() - later - unused();
    const created = left > 0 ? create(situation, { short: left, actions }) : [];
    if (created.length === 0) break;
    actions.push(...created);
  }
  const left = short() - later - unused();
  if (left <= 0) return { actions, short: short() };
  const unmet = { addresses: left, why: whyUnmet(situation, members) };
  return { actions, short: short(), unmet };
}

function whyUnmet(
  situation: Situation,
  members: readonly Member[],
): Unmet["why"] {
  const { attaches, subnet, pace, now } = situation;
  const hasRoom = (attaches && placesLeft(situation, []) > 0) ||
    members.some((member) => freeSlots(member, situation) > 0);
  if (!hasRoom) return "limit";
  const kind = kindFor(subnet, situation);
  return exhaustedUntil(pace, subnet, kind) > now ? "subnet" : "paused";
}

/** Addresses that are short when what is under way and these calls have been done. */
function shortWith(
  situation: Situation,
  members: readonly Member[],
  actions: readonly Action[],
): number {
  const counts = withGrowth(
    countsOf(members, situation),
    [...growing(situation), ...actions],
    situation.enis,
  );
  const { subnet, targets } = situation;
  // Single addresses for want of prefixes take the places of those, and what an earlier process asked for may come yet.
  const isCautious = isSettling(situation) ||
    kindFor(subnet, situation) !== targets.kind;
  const short = shortOf(situation, counts);
  return isCautious ? Math.min(short, urgentOf(counts)) : short;
}

/** ENIs of the node that are attached to no instance, and wait for nothing. */
export function looseEnis(situation: Situation): Eni[] {
  const busy = busyEnis(situation);
  return situation.enis.filter(({ id, ec2 }) =>
    ec2?.ownership === "owned" && ec2.attachment === undefined && !busy.has(id)
  );
}

function attach(
  eni: Eni,
  situation: Situation,
  planned: readonly Action[],
): Action[] {
  const device = freeDevice(situation, planned);
  if (!situation.attaches || placesLeft(situation, planned) <= 0) return [];
  const action = { kind: "attach", eni: eni.id, device } as const;
  return isPaused(action, situation) ? [] : [action];
}

function isPaused(action: Action, { pace, now }: Situation): boolean {
  return pausedUntil(pace, action) > now;
}

type Arrival = Extract<Action, { readonly kind: "create" | "attach" }>;

/** Calls under way and planned ones after which the instance has one ENI more. */
function arrivals(
  situation: Situation,
  planned: readonly Action[],
): Arrival[] {
  const attached = new Set(attachedEnis(situation).map(({ id }) => id));
  return [...growing(situation), ...planned].flatMap((action): Arrival[] => {
    if (action.kind === "create") return [action];
    const isNew = action.kind === "attach" && !attached.has(action.eni);
    return isNew ? [action] : [];
  });
}

function attachedEnis({ enis }: Situation): Eni[] {
  return enis.filter(({ ec2 }) => ec2?.attachment !== undefined);
}

/** How many more ENIs the instance may have. */
export function placesLeft(
  situation: Situation,
  planned: readonly Action[],
): number {
  const coming = arrivals(situation, planned).length;
  return situation.limits.enis - attachedEnis(situation).length - coming;
}

function freeDevice(
  situation: Situation,
  planned: readonly Action[],
): number {
  const taken = new Set(situation.enis.map(({ device }) => device));
  for (const action of [...growing(situation), ...planned]) {
    if (action.kind === "attach") taken.add(action.device);
  }
  let device = 1;
  while (taken.has(device)) device += 1;
  return device;
}

/** The room that ENIs on their way will have, in addresses. */
function unusedRoom(
  situation: Situation,
  planned: readonly Action[],
): number {
  const { enis, limits } = situation;
  let slots = 0;
  for (const action of arrivals(situation, planned)) {
    const held = action.kind === "create"
      ? action.count
      : enis.find(({ id }) => id === action.eni)?.grants.length ?? 0;
    slots += slotsOf(limits) - held;
  }
  return slots * sizeOf(kindFor(situation.subnet, situation));
}

/** The kind of blocks to ask for: single addresses while a fragmented subnet has no prefix. */
function kindFor(
  subnet: string,
  { targets, pace, now }: Situation,
): BlockKind {
  const isExhausted = exhaustedUntil(pace, subnet, "prefix") > now;
  return isExhausted ? "address" : targets.kind;
}

function blocksFor(
  short: number,
  { subnet, room }: { readonly subnet: string; readonly room: number },
  situation: Situation,
): { readonly what: BlockKind; readonly count: number } {
  const { targets, pace } = situation;
  const what = kindFor(subnet, situation);
  const wanted = fillsEnis(targets) ? room : Math.ceil(short / sizeOf(what));
  const count = Math.min(room, wanted, atMostOf(pace, subnet, what));
  return { what, count };
}

/** Addresses that are short, and the calls that are planned already. */
interface Need {
  readonly short: number;
  readonly actions: readonly Action[];
}

type Request = Extract<Action, { readonly kind: "create" | "assign" }>;

function assign(
  member: Member,
  situation: Situation,
  { short, actions }: Need,
): Action[] {
  const { id: eni, ec2: { subnet } } = member;
  const room = freeSlots(member, situation);
  if (room <= 0) return [];
  const blocks = blocksFor(short, { subnet, room }, situation);
  const action = { kind: "assign", eni, subnet, ...blocks } as const;
  return mayAsk(action, situation, actions) ? [action] : [];
}

/** Whether the subnet may be asked now. One that has few left gets one call at a time. */
function mayAsk(
  action: Request,
  situation: Situation,
  planned: readonly Action[],
): boolean {
  const { subnet, what } = action;
  if (isPaused(action, situation)) return false;
  if (atMostOf(situation.pace, subnet, what) === Infinity) return true;
  return ![...growing(situation), ...planned].some((other) =>
    (other.kind === "create" || other.kind === "assign") &&
    other.subnet === subnet && other.what === what
  );
}

function freeSlots({ grants }: Member, { limits }: Situation): number {
  return slotsOf(limits) - grants.filter(({ inEc2 }) => inEc2).length;
}

/** The room that an ENI will have when what is under way there has ended, in addresses. */
function roomLater(member: Member, situation: Situation): number {
  let slots = freeSlots(member, situation);
  for (const { retired } of member.uses.values()) if (retired) slots += 1;
  for (const action of growing(situation)) {
    const isHere = action.kind === "assign" && action.eni === member.id;
    if (isHere && action.what !== "ipv6") slots -= action.count;
  }
  const size = sizeOf(kindFor(member.ec2.subnet, situation));
  return Math.max(0, slots) * size;
}

function create(
  situation: Situation,
  { short, actions }: Need,
): Action[] {
  const { subnet, limits, attaches } = situation;
  if (!attaches || placesLeft(situation, actions) <= 0) return [];
  const room = slotsOf(limits);
  const blocks = blocksFor(short, { subnet, room }, situation);
  const action = { kind: "create", subnet, ...blocks } as const;
  return mayAsk(action, situation, actions) ? [action] : [];
}
