import {
  forEachConcurrently,
  jittered,
  sleep,
  withTimeout,
} from "../../lib/async/mod.ts";
import type {
  ProbeOutcome,
  Question,
  Questions,
} from "../../lib/connectivity/mod.ts";
import { failureOf } from "./failures.ts";
import { askDatagram } from "./ask_datagram.ts";
import { askStream, connectOnly } from "./ask_stream.ts";
import { askUrl } from "./ask_url.ts";

/** Of them at a time; each has a socket. */
const AT_ONCE = 1_024;
/** The kernel has sent a first packet of TCP three times by then. */
const ATTEMPT_MS = 4_000;
const PAUSE_MS = 500;

/** Tries every destination until it answers or the time is over; the outcomes are in the order of the questions. */
export async function ask(
  { questions, timeoutMs }: Questions,
): Promise<ProbeOutcome[]> {
  const endsAt = performance.now() + timeoutMs;
  const outcomes: ProbeOutcome[] = [];
  await forEachConcurrently([...questions.entries()], AT_ONCE, async (
    [index, question],
  ) => {
    outcomes[index] = await askUntil(endsAt, question);
  });
  return outcomes;
}

async function askUntil(
  endsAt: number,
  question: Question,
): Promise<ProbeOutcome> {
  let found: ProbeOutcome | undefined;
  for (;;) {
    const leftMs = Math.max(1, endsAt - performance.now());
    const outcome = await attempt(question, Math.min(ATTEMPT_MS, leftMs));
    if (outcome.state === "answered") return outcome;
    // The last attempt may have had no time: what an earlier one met says more.
    if (found === undefined || outcome.why !== "no answer") found = outcome;
    const pauseMs = jittered(PAUSE_MS);
    if (performance.now() + pauseMs >= endsAt) return found;
    await sleep(pauseMs);
  }
}

async function attempt(question: Question, ms: number): Promise<ProbeOutcome> {
  try {
    const seen = await withTimeout(ms, (signal) => askOnce(question, signal));
    return { state: "answered", ...seen };
  } catch (error) {
    return failureOf(error);
  }
}

async function askOnce(
  question: Question,
  signal: AbortSignal,
): Promise<{ readonly by?: string; readonly source?: string }> {
  switch (question.kind) {
    case "tcp":
      return await askStream(question, signal);
    case "udp":
      return await askDatagram(question, signal);
    case "connect":
      return await connectOnly(question, signal);
    case "get":
      return await askUrl(question, signal);
    default:
      throw new Error("this probe does not know such a question");
  }
}
