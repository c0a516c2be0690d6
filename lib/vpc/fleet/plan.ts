import type { Prefix } from "../../inet/mod.ts";
import { type Action, SETTLE_MS } from "./calls.ts";
import {
  type Fleet,
  fleetOf,
  isSettling,
  type Member,
  type Situation,
  UNSEEN_MS,
} from "./fleet.ts";
import { grow, type Unmet, unprovided } from "./grow.ts";
import { nextTry, pausedUntil } from "./pace.ts";
import { giveBack, MIN_ATTACHED_MS, retire } from "./shrink.ts";

/** Next steps. */
export interface Plan {
  /** Calls to begin, one for each ENI at the most. */
  readonly actions: readonly Action[];
  /** Blocks of which no more addresses are to be given; a later plan gives them back when they are retired. */
  readonly retire: readonly Prefix[];
  /** Addresses that will be short when everything under way is done. */
  readonly unmet?: Unmet | undefined;
  /** When to look at EC2 and plan again at the latest. */
  readonly dueAt: number;
}

/**
 * Decides what becomes of a node's ENIs. Pure: looks at everything after any change; what a process that was killed
 * had begun is finished or given back by what EC2 shows of it.
 */
export function plan(situation: Situation): Plan {
  const fleet = fleetOf(situation);
  const dueAt = dueTime(fleet);
  // Without the primary ENI the lists are not to be believed.
  if (!fleet.enis.some(isPrimary)) {
    return { actions: [], retire: [], dueAt };
  }
  if (fleet.provisions === false) {
    return { actions: [], retire: [], unmet: unprovided(fleet), dueAt };
  }
  if (!fleet.ipv4) {
    const actions = [...ipv6Prefixes(fleet), ...endings(fleet)];
    return { actions: onePerEni(actions, fleet), retire: [], dueAt };
  }
  const growth = grow(fleet);
  const short = growth.actions.length > 0 || growth.short > 0;
  const actions = onePerEni([
    ...ipv6Prefixes(fleet),
    ...growth.actions,
    ...giveBack(fleet, { short }),
    ...endings(fleet),
  ], fleet);
  return { actions, retire: retire(fleet), unmet: growth.unmet, dueAt };
}

function isPrimary({ ec2, inImds }: Situation["enis"][number]): boolean {
  return ec2?.ownership === "primary" && inImds;
}

function onePerEni(
  actions: readonly Action[],
  fleet: Fleet,
): Action[] {
  const { pace, now } = fleet;
  const busy = new Set(fleet.busy);
  return actions.filter((action) => {
    if (pausedUntil(pace, action) > now) return false;
    if (action.kind === "create") return true;
    if (busy.has(action.eni)) return false;
    busy.add(action.eni);
    return true;
  });
}

/** Each ENI's /80, from which its pods' IPv6 addresses are; one is enough where they have no others. */
function ipv6Prefixes({ ipv4, ipv6, members }: Fleet): Action[] {
  if (!ipv6) return [];
  return members.filter(({ ec2, hasIpv6 }) =>
    !hasIpv6 && (ipv4 || ec2.ownership === "primary")
  ).map(({ id: eni, ec2: { subnet } }) => (
    { kind: "assign", eni, subnet, what: "ipv6", count: 1 }
  ));
}

/** ENIs of coild that would outlive their instance. */
function endings(fleet: Fleet): Action[] {
  return fleet.members.filter(({ ec2, attachment }) =>
    ec2.ownership === "owned" && !attachment.endsWithInstance
  ).map(({ id: eni, attachment: { id: attachment } }) => (
    { kind: "endWithInstance", eni, attachment }
  ));
}

function dueTime(fleet: Fleet): number {
  const { now, pace, calls, startedAt, uses, returnDelayMs } = fleet;
  const times = [
    ...isSettling(fleet) ? [startedAt + SETTLE_MS] : [],
    ...calls.flatMap(({ ended }) => ended ? [ended.at + SETTLE_MS] : []),
    ...[...uses.values()].filter(({ retired }) => !retired)
      .map(({ emptySince = Infinity }) => emptySince + returnDelayMs),
    ...fleet.members.flatMap(turningPoints),
  ];
  const later = times.filter((time) => time > now);
  return Math.min(nextTry(pace, now), ...later);
}

/** When more is known of an ENI. */
function turningPoints({ state, attachment: { since } }: Member): number[] {
  if (state === "unseen") return [since + UNSEEN_MS];
  return [since + MIN_ATTACHED_MS];
}
