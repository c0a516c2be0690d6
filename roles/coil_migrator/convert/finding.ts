import { compareText } from "../../../lib/names/mod.ts";

/** The kinds of findings of the conversion of v1's state. */
export type FindingKind =
  | "address-without-block"
  | "block-held-twice"
  | "block-of-other-size"
  | "block-outside-pool"
  | "node-gone"
  | "pod-on-other-node"
  | "pool-annotation-differs"
  | "pool-empty"
  | "pool-nearly-full"
  | "pool-name"
  | "pool-overlap"
  | "pool-too-many-subnets"
  | "pool-without-namespace"
  | "subnet-overlap"
  | "subnet-too-narrow"
  | "unknown-pool";

/**
 * How much it matters:
 *
 * - `note`: carried over, or there is nothing to carry over
 * - `warning`: carried over in another form, or harmless as long as an admin has a look
 * - `loss`: not carried over; what uses it loses its network, or its addresses can be given to others
 */
export type Severity = "note" | "warning" | "loss";

/** One thing that the admin should know. */
export interface Finding {
  readonly kind: FindingKind;
  readonly severity: Severity;
  /** What it is about: a pool, a block, a pod. */
  readonly subject: string;
  /** What was found and what became of it, in a sentence without a full stop. */
  readonly message: string;
}

const SEVERITIES: readonly Severity[] = ["loss", "warning", "note"];

/** Orders findings: the worst first, then by kind and subject. */
export function sortedFindings(findings: readonly Finding[]): Finding[] {
  const rank = ({ severity }: Finding) => SEVERITIES.indexOf(severity);
  return findings.toSorted((a, b) =>
    rank(a) - rank(b) || compareText(a.kind, b.kind) ||
    compareText(a.subject, b.subject) || compareText(a.message, b.message)
  );
}

export function findingLine({ severity, subject, message }: Finding): string {
  return `${severity}: ${subject}: ${message}`;
}
