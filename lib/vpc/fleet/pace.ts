import type { Action, EniOutcome } from "./calls.ts";
import type { BlockKind } from "./eni.ts";

/** Lessons of failed calls. Lost with the process, and then learned again. */
export type Pace = ReadonlyMap<string, Pause>;

/** When something may be tried again. */
export interface Pause {
  readonly until: number;
  /** Failures one after the other. */
  readonly failures: number;
  /** How many blocks to ask a subnet for at a time: it refused more as a whole. */
  readonly atMost?: number | undefined;
}

/** Calls that fail for an unknown reason: longer from one to the next. */
const BACKOFF = { initialMs: 2_000, maxMs: 120_000 };
/** A limit rarely changes; that it did is noticed after this time. */
const LIMIT = { initialMs: 120_000, maxMs: 960_000 };
/** Upstream's pause after a subnet was found exhausted, there for the whole node. */
const EXHAUSTED_MS = 120_000;
/** A subnet without room is asked again when its pause is over; until the answer must be there, nothing has changed. */
const ASKED_AGAIN_MS = 30_000;
/** What was not tried again for so long is forgotten. */
const FORGET_MS = 1_800_000;

/** Calls that fail together: what one learns holds for the others. */
function scopeOf(action: Action): string {
  if (action.kind === "create" || action.kind === "attach") return action.kind;
  return action.eni;
}

function subnetScope(subnet: string, what: BlockKind | "ipv6"): string {
  return `${subnet} ${what}`;
}

/** What is learned from how a call ended. */
export function learn(
  pace: Pace,
  call: { readonly action: Action; readonly outcome: EniOutcome },
  { now, random }: { readonly now: number; readonly random: () => number },
): Pace {
  const { action, outcome } = call;
  const learned = new Map(
    [...pace].filter(([, { until }]) => until > now - FORGET_MS),
  );
  const why = outcome.kind === "refused" ? outcome.why : undefined;
  // That says nothing of an ENI: another one in its place would cost three calls more. Who makes the calls paces all of
  // them.
  if (why === "throttled") return learned;
  const isExhausted = why === "exhausted";
  if (action.kind === "create" || action.kind === "assign") {
    const scope = subnetScope(action.subnet, action.what);
    const pause = subnetPause(pace.get(scope), action.count, {
      outcome,
      until: now + EXHAUSTED_MS * (1 + random() / 2),
      now,
    });
    if (pause === undefined) learned.delete(scope);
    else learned.set(scope, pause);
  }
  const scope = scopeOf(action);
  if (outcome.kind === "done") learned.delete(scope);
  else if (!isExhausted) {
    const failures = (pace.get(scope)?.failures ?? 0) + 1;
    const ms = pauseMs(why === "limit" ? LIMIT : BACKOFF, failures, random);
    learned.set(scope, { until: now + ms, failures });
  }
  return learned;
}

/** A subnet that refuses several blocks may have fewer: half as many are asked for, then twice as many again. */
function subnetPause(
  pause: Pause | undefined,
  count: number,
  { outcome, until, now }: {
    readonly outcome: EniOutcome;
    readonly until: number;
    readonly now: number;
  },
): Pause | undefined {
  if (outcome.kind === "refused" && outcome.why === "exhausted") {
    const failures = (pause?.failures ?? 0) + 1;
    if (count <= 1) return { until, failures, atMost: 1 };
    return { until: now, failures, atMost: Math.floor(count / 2) };
  }
  if (outcome.kind !== "done" || pause?.atMost === undefined) return pause;
  // More than an ENI holds needs no bound.
  const atMost = pause.atMost * 2;
  return atMost > 64 ? undefined : { until: now, failures: 0, atMost };
}

function pauseMs(
  { initialMs, maxMs }: typeof BACKOFF,
  failures: number,
  random: () => number,
): number {
  const ms = Math.min(maxMs, initialMs * 2 ** (failures - 1));
  return ms * (0.5 + random() / 2);
}

/** Until when no such call is made; a time that has passed when it may be. */
export function pausedUntil(pace: Pace, action: Action): number {
  const scopes = [scopeOf(action)];
  if (action.kind === "create" || action.kind === "assign") {
    scopes.push(subnetScope(action.subnet, action.what));
  }
  // An ENI that could not be attached would only be deleted again.
  if (action.kind === "create") scopes.push("attach");
  return Math.max(
    ...scopes.map((scope) => pace.get(scope)?.until ?? -Infinity),
  );
}

/** How many blocks of the kind to ask a subnet for at a time. */
export function atMostOf(
  pace: Pace,
  subnet: string,
  what: BlockKind | "ipv6",
): number {
  return pace.get(subnetScope(subnet, what))?.atMost ?? Infinity;
}

/** Until when the subnet is not asked for blocks of the kind. */
export function exhaustedUntil(
  pace: Pace,
  subnet: string,
  what: BlockKind,
): number {
  return pace.get(subnetScope(subnet, what))?.until ?? -Infinity;
}

/** Kinds of blocks of which the subnet had none left when it was last asked. */
export function refusedKinds(
  pace: Pace,
  subnet: string,
  { now }: { readonly now: number },
): BlockKind[] {
  return (["prefix", "address"] as const).filter((kind) => {
    const pause = pace.get(subnetScope(subnet, kind));
    return pause?.atMost === 1 && pause.until + ASKED_AGAIN_MS > now;
  });
}

/** The next time after `now` at which something may be tried again. */
export function nextTry(pace: Pace, now: number): number {
  const times = [...pace.values()].map(({ until }) => until)
    .filter((until) => until > now);
  return Math.min(...times);
}
