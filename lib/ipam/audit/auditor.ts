import { type Clock, jittered, sleep } from "../../async/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import { type AnyFinding, lastingFindings, lookTwice } from "./look_twice.ts";

const log = getLogger("audit");

/** A daemon has time: what a burst of pods leaves for some seconds is over by then. */
const LOOK_AGAIN_MS = 30_000;

/** After a start admins want to know soon. */
const FIRST_MS = 10_000;

/** The most findings in one record, Event or condition. */
const MOST_SHOWN = 3;

/** How {@linkcode runAudits} works. */
export interface AuditOptions<F extends AnyFinding> {
  /** Looks once. */
  readonly look: (signal: AbortSignal) => Promise<readonly F[]>;
  /** Takes what two looks have found; undefined when it is not known. */
  readonly onFindings: (findings: readonly F[] | undefined) => void;
  /** About the time between two audits. */
  readonly intervalMs: number;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
}

/** Looks for inconsistencies about once in each interval until the signal, and logs those that were not there before. */
export async function runAudits<F extends AnyFinding>(
  { look, onFindings, intervalMs, clock }: AuditOptions<F>,
  signal: AbortSignal,
): Promise<void> {
  const wait = { signal, ...(clock && { clock }) };
  let before: readonly F[] = [];
  for (let waitMs = FIRST_MS;; waitMs = intervalMs) {
    await sleep(jittered(Math.min(waitMs, intervalMs)), wait);
    try {
      const found = await lookTwice(() => look(signal), {
        ...wait,
        hasProblems: ({ length }) => length > 0,
        lasting: lastingFindings,
        againMs: LOOK_AGAIN_MS,
      });
      const known = new Set(lastingFindings(before, found));
      const news = found.filter((finding) => !known.has(finding));
      if (news.length > 0) {
        log.warn("Found inconsistencies", {
          findings: found.length,
          detail: findingsText(news),
        });
      }
      before = found;
      onFindings(found);
    } catch (err) {
      signal.throwIfAborted();
      log.warn("Cannot check for inconsistencies", { err });
      onFindings(undefined);
    }
  }
}

/** The first findings as a sentence for people, and how many more there are. */
export function findingsText(findings: readonly AnyFinding[]): string {
  const shown = findings.slice(0, MOST_SHOWN).map(textOf).join("; ");
  const more = findings.length - MOST_SHOWN;
  return more > 0 ? `${shown}; and ${more} more` : shown;
}

function textOf({ object, message }: AnyFinding): string {
  return `${object}: ${message}`;
}

/** How many findings there are of each code, of all codes. */
export function countFindings<C extends string>(
  codes: readonly C[],
  findings: readonly { readonly code: C }[],
): Map<C, number> {
  const counts = new Map(codes.map((code) => [code, 0]));
  for (const { code } of findings) {
    counts.set(code, (counts.get(code) ?? 0) + 1);
  }
  return counts;
}
