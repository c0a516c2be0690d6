import { type BlockKind, PREFIX_SIZE, sizeOf } from "./eni.ts";
import { type Limits, slotsOf } from "./limits.ts";

/** How much a node keeps in store. */
export interface Targets {
  /** The kind of blocks that it asks for. */
  readonly kind: BlockKind;
  /** `--warm-enis`: ENIs' worth of free addresses. Without effect beside a target in addresses. */
  readonly warmEnis: number;
  /** `--warm-ips`: free addresses. */
  readonly warmIps: number;
  /** `--min-ips`: addresses in all. */
  readonly minIps: number;
  /** `--warm-prefixes`: free prefixes. Without effect beside a target in addresses. */
  readonly warmPrefixes: number;
  /** `--free-min` and `--free-max`: grows below the one, shrinks above the other. Takes the place of the others. */
  readonly free?: FreeRange | undefined;
  /** The most pods of the node. */
  readonly maxPods: number;
}

/** Bounds of the number of free addresses. */
export interface FreeRange {
  readonly min: number;
  readonly max: number;
}

/** Addresses of a node that pods may get. */
export interface Counts {
  readonly total: number;
  readonly used: number;
  /** Released lately: no pod gets them yet. */
  readonly cooling: number;
  /** Pods that wait for an address, or are going to ask for one. */
  readonly waiting: number;
  readonly prefixes: number;
  /** Prefixes without a used address. */
  readonly freePrefixes: number;
}

/** A node's targets and the limits that they are measured by. */
export interface Goal {
  readonly targets: Targets;
  readonly limits: Limits;
}

/** Which of the targets rules. */
type Rule = "free" | "ips" | "prefixes" | "enis";

function ruleOf({ free, warmIps, minIps, kind }: Targets): Rule {
  if (free !== undefined) return "free";
  if (warmIps > 0 || minIps > 0) return "ips";
  return kind === "prefix" ? "prefixes" : "enis";
}

/**
 * Refuses targets by which a node could not work.
 *
 * @throws {RangeError} when they keep nothing in store, or would grow and shrink in turn
 */
export function checkTargets({ targets, limits }: Goal): void {
  const { kind, free, warmPrefixes } = targets;
  if (kind === "prefix" && !limits.prefixes) {
    throw new RangeError(
      "Cannot use prefixes: the instance type allows none",
    );
  }
  if (ruleOf(targets) === "prefixes" && warmPrefixes <= 0) {
    throw new RangeError(
      "Cannot use prefixes: warm IPs, minimum IPs and warm prefixes are all 0",
    );
  }
  const step = kind === "prefix" ? PREFIX_SIZE : slotsOf(limits);
  if (free !== undefined && free.max < free.min + step) {
    throw new RangeError(
      `Cannot use targets: free-max is ${free.max}, must be at least ${
        free.min + step
      }: free-min and what comes at a time`,
    );
  }
}

/** Whether an ENI gets all the addresses that it can have: targets counted in ENIs need full ones. */
export function fillsEnis(targets: Targets): boolean {
  const rule = ruleOf(targets);
  return targets.kind === "address" && (rule === "enis" || rule === "free");
}

/**
 * How many addresses are short. Cooling ones do not help a pod that starts now, so they do not count as available,
 * which upstream's plugin does.
 */
export function shortOf(goal: Goal, counts: Counts): number {
  const { total, used, cooling, waiting } = counts;
  const usable = total - cooling;
  const wanted = wantedOf(goal, total, usable - used - waiting);
  // More than its pods a node never needs.
  const most = Math.max(goal.targets.maxPods, used + waiting) - usable;
  return Math.max(0, Math.min(wanted, most));
}

/** How many addresses are short of those for pods that wait, and one more. */
export function urgentOf({ total, used, cooling, waiting }: Counts): number {
  return Math.max(0, 1 + waiting + used + cooling - total);
}

function wantedOf(
  { targets, limits }: Goal,
  total: number,
  available: number,
): number {
  const { warmEnis, warmIps, minIps, warmPrefixes, free } = targets;
  switch (ruleOf(targets)) {
    case "free":
      return (free?.min ?? 0) - available;
    case "ips":
      return Math.max(warmIps - available, minIps - total);
    case "prefixes":
      return warmPrefixes * PREFIX_SIZE - available;
    case "enis":
      return Math.max(warmEnis * slotsOf(limits), 1) - available;
  }
}

/** How many blocks there are too many, ENIs as a whole left out. Cooling addresses count as available. */
export function overOf({ targets }: Goal, counts: Counts): number {
  const { total, used, prefixes, freePrefixes } = counts;
  const { kind, warmIps, minIps, warmPrefixes, free } = targets;
  const available = total - used;
  const rule = ruleOf(targets);
  if (kind === "address") {
    if (rule !== "ips") return 0;
    return Math.max(0, Math.min(available - warmIps, total - minIps));
  }
  const most = {
    free: Math.ceil((available - (free?.max ?? 0)) / PREFIX_SIZE),
    ips: Math.min(
      prefixes - Math.ceil((used + warmIps) / PREFIX_SIZE),
      prefixes - Math.ceil(minIps / PREFIX_SIZE),
    ),
    prefixes: freePrefixes - warmPrefixes,
    enis: 0,
  }[rule];
  return Math.max(0, Math.min(freePrefixes, most));
}

/** The counts when unused blocks are gone, or, with a negative number, when more have come. */
export function without(
  counts: Counts,
  kind: BlockKind,
  blocks = 1,
): Counts {
  const prefixes = kind === "prefix" ? blocks : 0;
  return {
    ...counts,
    total: counts.total - blocks * sizeOf(kind),
    prefixes: counts.prefixes - prefixes,
    freePrefixes: counts.freePrefixes - prefixes,
  };
}

/** Whether an unused block may go. What is left is never short, so that it does not come back at once. */
export function mayLoseBlock(
  goal: Goal,
  counts: Counts,
  kind: BlockKind,
): boolean {
  // Blocks of the other kind are left from before: they go as soon as they are not needed.
  const isOver = kind !== goal.targets.kind || overOf(goal, counts) > 0;
  return isOver && shortOf(goal, without(counts, kind)) === 0;
}

/** Whether a whole ENI may go, whose blocks are all unused; `rest` is what the others have. */
export function mayLoseEni(goal: Goal, counts: Counts, rest: Counts): boolean {
  if (shortOf(goal, rest) > 0) return false;
  const { targets, limits } = goal;
  const { kind, warmEnis, warmIps, minIps, warmPrefixes, free } = targets;
  const available = counts.total - counts.used;
  const whole = (ips: number) => Math.ceil(ips / sizeOf(kind)) * sizeOf(kind);
  switch (ruleOf(targets)) {
    case "free":
      return available > (free?.max ?? 0);
    case "ips":
      return rest.total - rest.used >= whole(warmIps) &&
        rest.total >= whole(minIps);
    case "prefixes":
      return rest.freePrefixes >= warmPrefixes;
    case "enis":
      return available >= (warmEnis + 1) * slotsOf(limits);
  }
}
