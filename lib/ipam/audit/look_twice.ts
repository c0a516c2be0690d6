import { type Clock, jittered, sleep } from "../../async/mod.ts";
import type { Problem } from "./problem.ts";

/** How long to wait before the second look, so that pods and blocks that come and go do not count. */
const LOOK_AGAIN_MS = 3_000;

/**
 * Looks, and again if the first look found problems: `lasting` makes one of
 * both. The second look comes after about `againMs`; default 3 s.
 */
export async function lookTwice<L>(
  look: () => Promise<L>,
  { hasProblems, lasting, againMs = LOOK_AGAIN_MS, ...wait }: {
    readonly hasProblems: (first: L) => boolean;
    readonly lasting: (first: L, second: L) => L;
    readonly againMs?: number;
    readonly signal?: AbortSignal;
    readonly clock?: Clock;
  },
): Promise<L> {
  const first = await look();
  if (!hasProblems(first)) return first;
  await sleep(jittered(againMs), wait);
  return lasting(first, await look());
}

/** A finding of any kind. */
export interface AnyFinding extends Problem {
  readonly code: string;
  /** Whose it is, where another may be found about the same object. */
  readonly holder?: string;
}

/** The findings that both looks have: what is in progress at one moment is over at the other. */
export function lastingFindings<F extends AnyFinding>(
  before: readonly F[],
  after: readonly F[],
): F[] {
  const keyOf = ({ object, code, holder }: F) => `${code} ${object} ${holder}`;
  const seen = new Set(before.map(keyOf));
  return after.filter((finding) => seen.has(keyOf(finding)));
}
