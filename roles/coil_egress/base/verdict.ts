import type { Verdict } from "../../../lib/announce/mod.ts";

/** Why a message is not taken. */
export function refused(status: 403 | 404 | 503, reason: string): Verdict {
  return { status, reason };
}
