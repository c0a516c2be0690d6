import { FAMILIES, type Family } from "../../inet/mod.ts";
import { FORWARDING } from "../../linux/mod.ts";
import { describeRule, type Rule } from "../../netlink/mod.ts";

/** Rules and routes of every node, so that its pods are reached: see {@linkcode planHost}. */
export interface HostSettings {
  readonly tableId: number;
  readonly rulePriority: number;
}

/** What there is of it. A family that the kernel lacks is absent. */
export interface FoundHost {
  readonly rules: ReadonlyMap<Family, readonly Rule[]>;
  /** Values of {@linkcode FORWARDING}. */
  readonly forwarding: ReadonlyMap<Family, string>;
}

/** Something that a node lacks and can be given. */
export type HostLack =
  | { readonly what: "rule"; readonly family: Family; readonly rule: Rule }
  | {
    readonly what: "forwarding";
    readonly family: Family;
    readonly sysctl: string;
  };

/** Something that a node lacks and cannot be given. */
export class HostProblem extends Error {
  /** The class, for logs. */
  override readonly name: string = "HostProblem";
  /** Whose pods are not reached. */
  readonly family: Family;

  /** `message` says what is missing, and what to do. */
  constructor(family: Family, message: string, options?: ErrorOptions) {
    super(message, options);
    this.family = family;
  }
}

/** The rule that looks up the pod table. */
function podRule(settings: HostSettings, family: Family): Rule {
  const { rulePriority: priority, tableId: table } = settings;
  return { family, priority, table };
}

/**
 * Compares a node with what it should have: the one description that start,
 * repair, readiness and CHECK share. Pure.
 *
 * Another program's rule that has our priority is left alone: it may be there
 * on purpose.
 */
export function planHost(
  settings: HostSettings,
  found: FoundHost,
): { readonly lacks: HostLack[]; readonly problems: HostProblem[] } {
  const lacks: HostLack[] = [];
  const problems: HostProblem[] = [];
  for (const family of FAMILIES) {
    const value = found.forwarding.get(family);
    if (value === "0") {
      lacks.push({ what: "forwarding", family, sysctl: FORWARDING[family] });
    }
    const rules = found.rules.get(family);
    if (rules === undefined) continue;
    const rule = podRule(settings, family);
    const present = rules.filter(({ priority }) => priority === rule.priority);
    if (present.some((other) => isSame(other, rule))) continue;
    const [foreign] = present;
    if (foreign === undefined) lacks.push({ what: "rule", family, rule });
    else problems.push(taken(rule, foreign));
  }
  return { lacks, problems };
}

/** In words, for an admin. */
export function lackText(lack: HostLack): string {
  if (lack.what === "forwarding") {
    return `sysctl "${lack.sysctl.replaceAll("/", ".")}" is 0`;
  }
  return `${describeRule(lack.rule)} is missing`;
}

/** One with a selector, or anything else that we do not give, does less than ours. */
function isSame(a: Rule, b: Rule): boolean {
  return a.table === b.table && a.hasMore === undefined &&
    a.source === undefined &&
    a.destination === undefined && a.fwmark === undefined &&
    a.iif === undefined;
}

function taken({ family, table, priority }: Rule, foreign: Rule): HostProblem {
  const what = foreign.table === 0
    ? "a rule that looks up no table"
    : `a rule for table ${foreign.table}`;
  return new HostProblem(
    family,
    `Cannot route ${family} pods by table ${table}: priority ${priority} has ${what} that is not Coil's; remove it, or set another --pod-rule-prio for coild`,
  );
}
