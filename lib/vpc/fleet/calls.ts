import type { Prefix } from "../../inet/mod.ts";
import type { BlockKind, Ec2Eni, EniAttachment, ImdsEni } from "./eni.ts";

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
 * - `throttled`: the account makes too many calls, of any kind
 * - `other`: permissions, parameters
 */
export type RefusalReason = "exhausted" | "limit" | "throttled" | "other";

/**
 * How a call ended. `unknown`: EC2 may have done it, after a timeout or an error of the server. What is already as
 * wanted, an ENI to delete that is gone, is `done`.
 */
export type EniOutcome =
  | {
    readonly kind: "done";
    /** The ENI that was created. */
    readonly eni?: Ec2Eni | undefined;
    readonly attachment?: Pick<EniAttachment, "id" | "since"> | undefined;
    /** What was assigned. */
    readonly blocks?: readonly Prefix[] | undefined;
  }
  | { readonly kind: "refused"; readonly why: RefusalReason }
  | { readonly kind: "unknown" };

/** A call that was made by this process. */
export interface EniCall {
  readonly action: Action;
  /** Undefined while it is under way. */
  readonly ended?: {
    readonly at: number;
    readonly outcome: EniOutcome;
    /** Whether the metadata service has shown what it did. */
    readonly wasShown?: boolean | undefined;
  };
}

/** For how long EC2's lists may lack a change that it has confirmed. */
export const SETTLE_MS = 10_000;

/** For how long EC2's lists may lack what the metadata service shows, and both may lack what neither has shown. */
const LATE_MS = { shown: 300_000, unseen: 120_000 };

/** Whether EC2's list, asked for at `lookedAt`, should show what the call did. */
export function isSettled({ ended }: EniCall, lookedAt: number): boolean {
  if (ended === undefined) return false;
  return ended.outcome.kind === "refused" || lookedAt >= ended.at + SETTLE_MS;
}

/**
 * Calls whose answers count beside EC2's lists, which may be behind: those that are not settled; those whose change the
 * metadata service shows, for five minutes; those whose change it has never shown, for two. The others can be forgotten.
 */
export function unforgotten(
  calls: readonly EniCall[],
  { lookedAt, imds }: {
    readonly lookedAt: number;
    readonly imds: readonly ImdsEni[];
  },
): EniCall[] {
  // Mostly, and there can be hundreds of blocks.
  if (calls.length === 0) return [];
  const seen = new Map(imds.map((eni) => [eni.id, seenInImds(eni)]));
  return calls.flatMap((call): EniCall[] => {
    const { action, ended } = call;
    if (ended?.outcome.kind !== "done") {
      return isSettled(call, lookedAt) ? [] : [call];
    }
    const isShown = shows(seen, call);
    const wasShown = isShown || ended.wasShown === true;
    const noted: EniCall = { action, ended: { ...ended, wasShown } };
    const lateMs = isShown ? LATE_MS.shown : wasShown ? 0 : LATE_MS.unseen;
    const counts = !isSettled(call, lookedAt) || lookedAt < ended.at + lateMs;
    return counts ? [noted] : [];
  });
}

/** Whether EC2's list lacks what it should show of these calls: it is behind. */
export function isBehind(
  list: readonly Ec2Eni[],
  { calls, lookedAt }: {
    readonly calls: readonly EniCall[];
    readonly lookedAt: number;
  },
): boolean {
  const settled = calls.filter((call) => isSettled(call, lookedAt));
  if (settled.length === 0) return false;
  const seen = new Map(list.map((eni) => [eni.id, seenInEc2(eni)]));
  return settled.some((call) => !shows(seen, call));
}

/** An ENI, as far as calls change what both show of it. */
interface Seen {
  readonly isAttached: boolean;
  /** Not shown by the metadata service. */
  readonly endsWithInstance: boolean;
  readonly blocks: ReadonlySet<string>;
}

function seenInEc2({ attachment, blocks, ipv6 }: Ec2Eni): Seen {
  return {
    isAttached: attachment !== undefined && attachment.state !== "detaching",
    endsWithInstance: attachment?.endsWithInstance === true,
    blocks: new Set([...blocks, ipv6].map(String)),
  };
}

function seenInImds({ blocks, ipv6 }: ImdsEni): Seen {
  return {
    isAttached: true,
    endsWithInstance: true,
    blocks: new Set([...blocks, ipv6].map(String)),
  };
}

/** Whether an ENI is as a call has made it. */
function shows(
  enis: ReadonlyMap<string, Seen>,
  { action, ended }: EniCall,
): boolean {
  if (ended?.outcome.kind !== "done") return false;
  const { blocks = [], eni: made } = ended.outcome;
  const eni = enis.get(
    (action.kind === "create" ? made?.id : action.eni) ?? "",
  );
  switch (action.kind) {
    case "create":
      return eni !== undefined;
    case "attach":
      return eni?.isAttached === true;
    case "assign":
      return blocks.every((block) => eni?.blocks.has(String(block)));
    case "unassign":
      return !action.blocks.some((block) => eni?.blocks.has(String(block)));
    case "endWithInstance":
      return eni?.endsWithInstance === true;
    case "detach":
      return eni?.isAttached !== true;
    case "delete":
      return eni === undefined;
  }
}

/** Whether it is not known yet what the call does: its ENI has to wait. */
export function isOpen(call: EniCall, lookedAt: number): boolean {
  return call.ended?.outcome.kind !== "done" && !isSettled(call, lookedAt);
}

/** EC2's list with the answers of {@linkcode unforgotten} calls. */
export function withAnswers(
  list: readonly Ec2Eni[],
  calls: readonly EniCall[],
): Ec2Eni[] {
  const enis = new Map(list.map((eni) => [eni.id, eni]));
  for (const call of calls) answer(enis, call);
  return [...enis.values()];
}

function answer(enis: Map<string, Ec2Eni>, { action, ended }: EniCall): void {
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
  { attachment, blocks = [] }: EniOutcome & { readonly kind: "done" },
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
  // An attachment of before a detachment may still be shown, and a later one.
  const { id, since = -Infinity } = eni.attachment ?? {};
  if (attachment === undefined || attachment.id === id) return eni;
  if (since > attachment.since) return eni;
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
