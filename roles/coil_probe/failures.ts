import { isTimeout } from "../../lib/async/mod.ts";
import type {
  FailureReason,
  ProbeOutcome,
} from "../../lib/connectivity/mod.ts";
import { codeOf, messageOf } from "../../lib/errors/mod.ts";
import { errnoName, LinuxError } from "../../lib/linux/mod.ts";

/** A packet of the largest size was sent, and what happened to it. */
export class LargePacketError extends Error {
  override readonly name = "LargePacketError";
  /** Bytes of the IP packet. */
  readonly size: number;

  constructor(size: number, cause: unknown) {
    super(`no answer to a packet of ${size} bytes`, { cause });
    this.size = size;
  }
}

const REASONS: Readonly<Record<string, FailureReason>> = {
  ECONNREFUSED: "refused",
  ECONNRESET: "refused",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  // A route of type prohibit, or a rule of a packet filter on this host.
  EACCES: "unreachable",
  EPERM: "unreachable",
  EMSGSIZE: "too large",
};

/** Why there was no answer. */
export function failureOf(error: unknown): ProbeOutcome {
  if (error instanceof LargePacketError) {
    return { ...failureOf(error.cause), size: error.size } as ProbeOutcome;
  }
  const code = codeWithin(error);
  const why = isTimeout(error) ? "no answer" : REASONS[code] ?? "other";
  const detail = messageOf(error);
  return { state: "failed", why, detail };
}

/** Of the error itself, or of one that caused it: fetch wraps what happened. */
function codeWithin(error: unknown): string {
  if (error instanceof LinuxError) return errnoName(error.errno);
  if (!(error instanceof Error)) return "";
  return codeOf(error) ?? codeWithin(error.cause);
}
