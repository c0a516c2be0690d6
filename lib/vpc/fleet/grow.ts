import type { Action } from "./calls.ts";
import { type BlockKind, type Eni, sizeOf } from "./eni.ts";
import {
  type Fleet,
  isLost,
  isSettling,
  type Member,
  withGrowth,
} from "./fleet.ts";
import { slotsOf } from "./limits.ts";
import { atMostOf, exhaustedUntil, pausedUntil } from "./pace.ts";
import { fillsEnis, shortOf, urgentOf } from "./targets.ts";

/** Addresses that a node needs. */
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
 * - `fixed`: EC2 may not be asked for any
 */
export interface Unmet {
  readonly addresses: number;
  readonly why: "limit" | "subnet" | "paused" | "fixed";
}

/** What pods lack where EC2 may not be asked. */
export function unprovided({ counts }: Fleet): Unmet | undefined {
  const addresses = urgentOf(counts);
  return addresses > 0 ? { addresses, why: "fixed" } : undefined;
}

/** More addresses, in this order: by an ENI that is there already, by room on attached ones, by new ENIs. */
export function grow(fleet: Fleet): Growth {
  const { members, busy } = fleet;
  const actions: Action[] = [];
  const short = (): number => shortWith(fleet, actions);
  const unused = (): number => unusedRoom(fleet, actions);

  for (const eni of looseEnis(fleet)) {
    if (short() > 0) actions.push(...attach(eni, fleet, actions));
  }
  // Where a call is under way there will be room afterwards: no new ENI for that.
  let later = 0;
  for (const member of members) {
    const left = short() - later - unused();
    if (left <= 0 || isLost(member, fleet.now)) continue;
    if (busy.has(member.id) || member.state === "draining") {
      later += roomLater(member, fleet);
    } else actions.push(...assign(member, fleet, { short: left, actions }));
  }
  for (;;) {
    const left = short() - later - unused();
    const created = left > 0 ? create(fleet, { short: left, actions }) : [];
    if (created.length === 0) break;
    actions.push(...created);
  }
  const left = short() - later - unused();
  if (left <= 0) return { actions, short: short() };
  const unmet = { addresses: left, why: whyUnmet(fleet) };
  return { actions, short: short(), unmet };
}

function whyUnmet(fleet: Fleet): Unmet["why"] {
  const { attaches, members, subnet, pace, now } = fleet;
  const hasRoom = (attaches && placesLeft(fleet, []) > 0) ||
    members.some((member) => freeSlots(member, fleet) > 0);
  if (!hasRoom) return "limit";
  const kind = kindFor(subnet, fleet);
  return exhaustedUntil(pace, subnet, kind) > now ? "subnet" : "paused";
}

/** Addresses that are short when what is under way and these calls have been done. */
function shortWith(
  fleet: Fleet,
  actions: readonly Action[],
): number {
  const counts = withGrowth(
    fleet.counts,
    [...fleet.growing, ...actions],
    fleet.enis,
  );
  const { subnet, targets } = fleet;
  // Single addresses for want of prefixes take the places of those, and what an earlier process asked for may come yet.
  const isCautious = isSettling(fleet) ||
    kindFor(subnet, fleet) !== targets.kind;
  const short = shortOf(fleet, counts);
  return isCautious ? Math.min(short, urgentOf(counts)) : short;
}

/** ENIs of the node that are attached to no instance, and wait for nothing. */
export function looseEnis(fleet: Fleet): Eni[] {
  return fleet.enis.filter(({ id, ec2 }) =>
    ec2?.ownership === "owned" && ec2.attachment === undefined &&
    !fleet.busy.has(id)
  );
}

function attach(
  eni: Eni,
  fleet: Fleet,
  planned: readonly Action[],
): Action[] {
  const device = freeDevice(fleet, planned);
  if (!fleet.attaches || placesLeft(fleet, planned) <= 0) return [];
  const action = { kind: "attach", eni: eni.id, device } as const;
  return isPaused(action, fleet) ? [] : [action];
}

function isPaused(action: Action, { pace, now }: Fleet): boolean {
  return pausedUntil(pace, action) > now;
}

type Arrival = Extract<Action, { readonly kind: "create" | "attach" }>;

/** Calls under way and planned ones after which the instance has one ENI more. */
function arrivals(
  fleet: Fleet,
  planned: readonly Action[],
): Arrival[] {
  const attached = new Set(attachedEnis(fleet).map(({ id }) => id));
  return [...fleet.growing, ...planned].flatMap((action): Arrival[] => {
    if (action.kind === "create") return [action];
    const isNew = action.kind === "attach" && !attached.has(action.eni);
    return isNew ? [action] : [];
  });
}

function attachedEnis({ enis }: Fleet): Eni[] {
  return enis.filter(({ ec2 }) => ec2?.attachment !== undefined);
}

/** How many more ENIs the instance may have. */
export function placesLeft(
  fleet: Fleet,
  planned: readonly Action[],
): number {
  const coming = arrivals(fleet, planned).length;
  return fleet.limits.enis - attachedEnis(fleet).length - coming;
}

function freeDevice(
  fleet: Fleet,
  planned: readonly Action[],
): number {
  const taken = new Set(fleet.enis.map(({ device }) => device));
  for (const action of [...fleet.growing, ...planned]) {
    if (action.kind === "attach") taken.add(action.device);
  }
  let device = 1;
  while (taken.has(device)) device += 1;
  return device;
}

/** The room that ENIs on their way will have, in addresses. */
function unusedRoom(
  fleet: Fleet,
  planned: readonly Action[],
): number {
  const { enis, limits } = fleet;
  let slots = 0;
  for (const action of arrivals(fleet, planned)) {
    const held = action.kind === "create"
      ? action.count
      : enis.find(({ id }) => id === action.eni)?.grants.length ?? 0;
    slots += slotsOf(limits) - held;
  }
  return slots * sizeOf(kindFor(fleet.subnet, fleet));
}

/** The kind of blocks to ask for: single addresses while a fragmented subnet has no prefix. */
function kindFor(
  subnet: string,
  { targets, pace, now }: Fleet,
): BlockKind {
  const isExhausted = exhaustedUntil(pace, subnet, "prefix") > now;
  return isExhausted ? "address" : targets.kind;
}

function blocksFor(
  short: number,
  { subnet, room }: { readonly subnet: string; readonly room: number },
  fleet: Fleet,
): { readonly what: BlockKind; readonly count: number } {
  const { targets, pace } = fleet;
  const what = kindFor(subnet, fleet);
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
  fleet: Fleet,
  { short, actions }: Need,
): Action[] {
  const { id: eni, ec2: { subnet } } = member;
  const room = freeSlots(member, fleet);
  if (room <= 0) return [];
  const blocks = blocksFor(short, { subnet, room }, fleet);
  const action = { kind: "assign", eni, subnet, ...blocks } as const;
  return mayAsk(action, fleet, actions) ? [action] : [];
}

/** Whether the subnet may be asked now. One that has few left gets one call at a time. */
function mayAsk(
  action: Request,
  fleet: Fleet,
  planned: readonly Action[],
): boolean {
  const { subnet, what } = action;
  if (isPaused(action, fleet)) return false;
  if (atMostOf(fleet.pace, subnet, what) === Infinity) return true;
  return ![...fleet.growing, ...planned].some((other) =>
    (other.kind === "create" || other.kind === "assign") &&
    other.subnet === subnet && other.what === what
  );
}

function freeSlots({ slots }: Member, { limits }: Fleet): number {
  return slotsOf(limits) - slots.filter(({ inEc2 }) => inEc2).length;
}

/** The room that an ENI will have when what is under way there has ended, in addresses. */
function roomLater(member: Member, fleet: Fleet): number {
  const leaving = member.slots.filter(({ inEc2, use }) =>
    inEc2 && use?.retired
  );
  let slots = freeSlots(member, fleet) + leaving.length;
  for (const action of fleet.growing) {
    const isHere = action.kind === "assign" && action.eni === member.id;
    if (isHere && action.what !== "ipv6") slots -= action.count;
  }
  const size = sizeOf(kindFor(member.ec2.subnet, fleet));
  return Math.max(0, slots) * size;
}

function create(
  fleet: Fleet,
  { short, actions }: Need,
): Action[] {
  const { subnet, limits, attaches } = fleet;
  if (!attaches || placesLeft(fleet, actions) <= 0) return [];
  const room = slotsOf(limits);
  const blocks = blocksFor(short, { subnet, room }, fleet);
  const action = { kind: "create", subnet, ...blocks } as const;
  return mayAsk(action, fleet, actions) ? [action] : [];
}
