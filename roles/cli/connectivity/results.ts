import type {
  FailureReason,
  ProbeOutcome,
} from "../../../lib/connectivity/mod.ts";
import { type Family, hostPort } from "../../../lib/inet/mod.ts";
import { type Check, CHECKS, type Probe } from "./plan.ts";

/** Reason for which an outcome is a failure. */
export type Trouble =
  | {
    readonly why: FailureReason;
    readonly detail: string;
    readonly size?: number | undefined;
  }
  /** Another server answered, or it saw another address. */
  | { readonly why: "other server" | "other source"; readonly seen: string };

/** A question with what came of it. */
export interface Result {
  readonly probe: Probe;
  /** Absent when all is well. */
  readonly trouble?: Trouble | undefined;
}

/** A question that was not answered as it should be. */
export interface Failure extends Result {
  readonly trouble: Trouble;
}

/** Compares an outcome with what the plan expects. */
export function resultOf(probe: Probe, outcome: ProbeOutcome): Result {
  return { probe, trouble: troubleOf(probe, outcome) };
}

function troubleOf(
  { to, sources }: Probe,
  outcome: ProbeOutcome,
): Trouble | undefined {
  if (outcome.state === "failed") return outcome;
  const { by, source } = outcome;
  if (to !== undefined && by !== to.name) {
    return { why: "other server", seen: by ?? "" };
  }
  if (sources === undefined || sources.includes(source ?? "")) return undefined;
  return { why: "other source", seen: source ?? "" };
}

/** Results of pods that ask pods, found by who asks whom: with `--all` there may be a million. */
export class ResultIndex {
  readonly #small = new Map<string, Result>();
  readonly #lost = new Set<string>();

  constructor(results: readonly Result[]) {
    for (const result of results) {
      const { check, from, to, family, question } = result.probe;
      if (check !== "pod" || to === undefined) continue;
      this.#small.set(keyOf(result.probe, question.kind), result);
      if (result.trouble === undefined) continue;
      this.#lost.add(`${from.node} ${family}`);
    }
  }

  /** What came of small packets between the pods of a probe, by a protocol. */
  small(probe: Probe, kind: string): Result | undefined {
    return this.#small.get(keyOf(probe, kind));
  }

  /** Whether a pod of the node does not reach another one. */
  isPodLost(node: string, family: Family): boolean {
    return this.#lost.has(`${node} ${family}`);
  }
}

function keyOf({ from, to, family }: Probe, kind: string): string {
  return `${from.name} ${to?.name} ${family} ${kind}`;
}

export function failuresOf(results: readonly Result[]): Failure[] {
  return results.flatMap(({ probe, trouble }) =>
    trouble === undefined ? [] : [{ probe, trouble }]
  );
}

/** What is wrong, in a few words. */
export function troubleText(trouble: Trouble): string {
  switch (trouble.why) {
    case "other server":
      return trouble.seen === ""
        ? "another server answered"
        : `"${trouble.seen}" answered`;
    case "other source":
      return trouble.seen === ""
        ? "the answer has no address"
        : `seen as ${trouble.seen}`;
    case "other":
      return trouble.detail;
    case "too large":
    case "no answer":
    case "refused":
    case "unreachable":
      return trouble.size === undefined
        ? trouble.why
        : `${trouble.why} (packets of ${trouble.size} bytes)`;
  }
}

/** Who asked what, in a few words. */
export function probeText({ from, to, question }: Probe): string {
  const target = question.kind === "get"
    ? question.url
    : hostPort(question.address, question.port);
  const there = to === undefined ? "" : ` (Node ${to.node})`;
  const how = { tcp: " by TCP", udp: " by UDP", connect: " by TCP", get: "" };
  return `Node ${from.node} to ${target}${there}${how[question.kind]}`;
}

/** How many of each check were done and failed, in the order of {@linkcode CHECKS}. */
export function countsOf(
  results: readonly Result[],
): { readonly check: Check; readonly done: number; readonly failed: number }[] {
  return CHECKS.flatMap((check) => {
    const own = results.filter(({ probe }) => probe.check === check);
    if (own.length === 0) return [];
    return [{ check, done: own.length, failed: failuresOf(own).length }];
  });
}
