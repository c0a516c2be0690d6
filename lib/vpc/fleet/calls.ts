import type { Prefix } from "../../inet/mod.ts";
import type { BlockKind, Ec2Eni, EniAttachment } from "./eni.ts";

/** One call of EC2 that changes something. */
export type Action =
  | {
    readonly kind: "create";
    readonly subnet: string;
    readonly what: BlockKind;
    readonly count: number;
  }
  | {
    readonly kind: "attach";
    readonly eni: string;
    readonly device: number;
  }
  | {
    readonly kind: "assign";
    readonly eni: string;
    readonly subnet: string;
    /** `ipv6`: the ENI's one /80. */
    readonly what: BlockKind | "ipv6";
    readonly count: number;
  }
  | {
    readonly kind: "unassign";
    readonly eni: string;
    readonly blocks: readonly Prefix[];
  }
  /** The ENI is deleted with the instance (DeleteOnTermination). */
  | {
    readonly kind: "endWithInstance";
    readonly eni: string;
    readonly attachment: string;
  }
  | {
    readonly kind: "detach";
    readonly eni: string;
    readonly attachment: string;
  }
  | { readonly kind: "delete"; readonly eni: string };

/**
 * Why EC2 refused a call:
 *
 * - `exhausted`: the subnet has no such block left
 * - `limit`: a limit of the ENI, the instance or the account
 * - `throttled`: the account makes too many calls, of whatever kind
 * - `other`: permissions, parameters
 */
export type Refusal = "exhausted" | "limit" | "throttled" | "other";

/**
 * How a call ended. `unknown`: EC2 may have done it, after a timeout or an error of the server. What is already as
 * wanted, an ENI to delete that is gone, is `done`.
 */
export type Outcome =
  | {
    readonly kind: "done";
    /** The ENI that was created. */
    readonly eni?: Ec2Eni | undefined;
    readonly attachment?: Pick<EniAttachment, "id" | "since"> | undefined;
    /** What was assigned. */
    readonly blocks?: readonly Prefix[] | undefined;
  }
  | { readonly kind: "refused"; readonly why: Refusal }
  | { readonly kind: "unknown" };

/** A call that was made by this process. */
export interface Call {
  readonly action: Action;
  /** Undefined while it is under way. */
  readonly ended?: { readonly at: number; readonly outcome: Outcome };
}

/** For how long EC2's lists may lack a change that it has confirmed. */
export const SETTLE_MS = 10_000;

/** Whether EC2's list, asked for at `lookedAt`, may lack what the call did. Calls that are settled can be forgotten. */
export function isSettled({ ended }: Call, lookedAt: number): boolean {
  if (ended === undefined) return false;
  return ended.outcome.kind === "refused" || lookedAt >= ended.at + SETTLE_MS;
}

/** Whether it is not known yet what the call does: its ENI has to wait. */
export function isOpen(call: Call, lookedAt: number): boolean {
  return call.ended?.outcome.kind !== "done" && !isSettled(call, lookedAt);
}

/** EC2's list with what its answers have said since: the list may be behind them. */
export function withAnswers(
  list: readonly Ec2Eni[],
  calls: readonly Call[],
  lookedAt: number,
): Ec2Eni[] {
  const enis = new Map(list.map((eni) => [eni.id, eni]));
  for (const call of calls) {
    if (!isSettled(call, lookedAt)) answer(enis, call);
  }
  return [...enis.values()];
}

function answer(enis: Map<string, Ec2Eni>, { action, ended }: Call): void {
  if (ended?.outcome.kind !== "done") return;
  const { outcome } = ended;
  if (action.kind === "create") {
    const { eni } = outcome;
    if (eni !== undefined && !enis.has(eni.id)) enis.set(eni.id, eni);
    return;
  }
  const eni = enis.get(action.eni);
  if (action.kind === "delete") enis.delete(action.eni);
  else if (eni !== undefined) enis.set(eni.id, changed(eni, action, outcome));
}

function changed(
  eni: Ec2Eni,
  action: Exclude<Action, { readonly kind: "create" | "delete" }>,
  { attachment, blocks = [] }: Outcome & { readonly kind: "done" },
): Ec2Eni {
  switch (action.kind) {
    case "attach":
      return attached(eni, action.device, attachment);
    case "assign": {
      if (action.what === "ipv6") {
        return { ...eni, ipv6: blocks[0] ?? eni.ipv6 };
      }
      return { ...eni, blocks: [...eni.blocks, ...blocks] };
    }
    case "unassign": {
      const gone = new Set(action.blocks.map(String));
      const left = eni.blocks.filter((block) => !gone.has(String(block)));
      return { ...eni, blocks: left };
    }
    case "endWithInstance":
      return changeAttachment(eni, action, { endsWithInstance: true });
    case "detach":
      return changeAttachment(eni, action, { state: "detaching" });
  }
}

function attached(
  eni: Ec2Eni,
  device: number,
  attachment: Pick<EniAttachment, "id" | "since"> | undefined,
): Ec2Eni {
  // An attachment of before a detachment may still be shown.
  const { id } = eni.attachment ?? {};
  if (attachment === undefined || attachment.id === id) return eni;
  const state = "attaching";
  return {
    ...eni,
    attachment: { ...attachment, device, state, endsWithInstance: false },
  };
}

function changeAttachment(
  eni: Ec2Eni,
  action: { readonly attachment: string },
  change: Partial<EniAttachment>,
): Ec2Eni {
  const { attachment } = eni;
  // The ENI may have been attached again since.
  if (attachment?.id !== action.attachment) return eni;
  return { ...eni, attachment: { ...attachment, ...change } };
}
