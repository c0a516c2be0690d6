import { messageOf } from "../../../lib/errors/mod.ts";
import { EXIT } from "../../../lib/flags/mod.ts";
import { forEachConcurrently } from "../../../lib/async/mod.ts";
import {
  type NodeFacts,
  parseFacts,
  parseOutcomes,
  type ProbeOutcome,
  type Question,
} from "../../../lib/connectivity/mod.ts";
import { type CoilContainer, type Exec, failureOf } from "../base/kubectl.ts";
import { CONTAINER } from "./objects.ts";
import type { Probe, TestPod } from "./plan.ts";
import { failuresOf, type Result, resultOf } from "./results.ts";

/** Pods that ask at a time. */
const AT_ONCE = 16;
/** Of one pod, in one command. */
const MAX_QUESTIONS = 500;
/** Routes to a new block are there within seconds. */
const TIMEOUT_MS = 10_000;
/** Of a pod's questions, with the time that a busy node takes to start a program; twice this, and the pods' start, fit into the test's time. */
const EXEC_MS = 90_000;

/** How questions get into pods. */
export interface Asking {
  readonly exec: Exec;
  readonly namespace: string;
  readonly signal: AbortSignal;
  /** Takes messages for the user. */
  readonly say: (text: string) => void;
}

/** Outcomes of the questions, and the pods without an answer. */
export interface Asked {
  readonly results: readonly Result[];
  readonly unasked: readonly { readonly pod: TestPod; readonly why: string }[];
}

/**
 * Asks all, and once more what failed and who did not answer: what is reported
 * has failed twice. The answers of a busy node may take longer than there is
 * time for.
 */
export async function askAll(
  probes: readonly Probe[],
  asking: Asking,
): Promise<Asked> {
  const first = await askRound(probes, asking);
  const failed = new Set(failuresOf(first.results).map(({ probe }) => probe));
  const answered = new Set(first.results.map(({ probe }) => probe));
  const again = probes.filter((probe) =>
    failed.has(probe) || !answered.has(probe)
  );
  if (again.length === 0) return first;
  // What was cut short has not failed.
  if (!asking.signal.aborted) {
    asking.say(`${again.length} probes failed: repeating these`);
  }
  const second = await askRound(again, asking);
  const results = new Map(
    [...first.results, ...second.results].map((one) => [one.probe, one]),
  );
  return { results: [...results.values()], unasked: second.unasked };
}

async function askRound(
  probes: readonly Probe[],
  asking: Asking,
): Promise<Asked> {
  const results: Result[] = [];
  const unasked: { pod: TestPod; why: string }[] = [];
  const byPod = [...Map.groupBy(probes, ({ from }) => from)];
  await forEachConcurrently(byPod, AT_ONCE, async ([pod, own]) => {
    try {
      for (let start = 0; start < own.length; start += MAX_QUESTIONS) {
        const part = own.slice(start, start + MAX_QUESTIONS);
        const outcomes = await askFrom(
          { ...asking, name: pod.name, container: CONTAINER },
          part.map(({ question }) => question),
          asking,
        );
        part.forEach((probe, i) => {
          const outcome = outcomes[i];
          if (outcome !== undefined) results.push(resultOf(probe, outcome));
        });
      }
    } catch (error) {
      const why = messageOf(error);
      unasked.push({ pod, why: asking.signal.aborted ? "no time left" : why });
    }
  });
  return { results, unasked };
}

/** Has a container ask. @throws {Error} when it cannot be run there */
export async function askFrom(
  container: CoilContainer,
  questions: readonly Question[],
  { exec, signal, timeoutMs = TIMEOUT_MS }: Pick<Asking, "exec" | "signal"> & {
    readonly timeoutMs?: number;
  },
): Promise<ProbeOutcome[]> {
  const stdin = JSON.stringify({ timeoutMs, questions });
  const text = await runProbe(container, "ask", { exec, signal, stdin });
  return parseOutcomes(text, questions.length);
}

/** Has a node's coild say what its kernel knows of addresses. @throws {Error} when it cannot be run there */
export async function lookFrom(
  container: CoilContainer,
  addresses: readonly string[],
  { exec, signal }: Pick<Asking, "exec" | "signal">,
): Promise<NodeFacts> {
  const stdin = JSON.stringify(addresses);
  return parseFacts(await runProbe(container, "look", { exec, signal, stdin }));
}

async function runProbe(
  container: CoilContainer,
  command: string,
  { exec, signal, stdin }: Pick<Asking, "exec" | "signal"> & {
    readonly stdin: string;
  },
): Promise<string> {
  const ran = await exec(container, ["probe", command], {
    signal,
    stdin,
    timeoutMs: EXEC_MS,
  });
  if (ran.code === EXIT.usage) {
    throw new Error("its coil is too old: it has no probe");
  }
  if (ran.code !== EXIT.ok) throw new Error(failureOf(ran));
  return ran.stdout;
}
