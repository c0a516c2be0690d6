import { onAbort } from "../../../lib/async/mod.ts";
import type { ProgressTerminal } from "../../../lib/eviction/mod.ts";
import { printAll } from "../../../lib/flags/mod.ts";
import { MigrateError } from "./errors.ts";

/** Where a command writes to, and who answers its questions. */
export interface Terminal extends ProgressTerminal {
  /** Takes what was asked for: a manifest, a status. */
  out(text: string): void;
  /** Asks for a yes; undefined when there is no user to ask. */
  ask(question: string, signal: AbortSignal): Promise<boolean | undefined>;
}

/** Asks whether to go on. @throws {MigrateError} when there is no user to ask */
export async function confirm(
  { terminal, signal }: {
    readonly terminal: Terminal;
    readonly signal: AbortSignal;
  },
  question: string,
): Promise<boolean> {
  const answer = await terminal.ask(question, signal);
  if (answer !== undefined) return answer;
  throw new MigrateError(
    "Cannot ask for confirmation: stdin is not a terminal\nUse --yes to skip the question, or --dry-run to change nothing. Nothing was changed.",
  );
}

/** The terminal that the process was started at. */
export function processTerminal(): Terminal {
  return {
    // When the reader is gone, the work goes on: it matters more than the output.
    out: (text) => void printAll(Deno.stdout, text),
    err: (text) => void printAll(Deno.stderr, text),
    isInteractive: Deno.stderr.isTerminal(),
    ask: askAtTerminal,
  };
}

async function askAtTerminal(
  question: string,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  if (!Deno.stdin.isTerminal()) return undefined;
  printAll(Deno.stderr, `${question} [y/N] `);
  const reader = Deno.stdin.readable.getReader();
  const cancel = () => void reader.cancel(signal.reason).catch(() => {});
  using _listening = onAbort(signal, cancel);
  try {
    const { value } = await reader.read();
    signal.throwIfAborted();
    return isYes(new TextDecoder().decode(value));
  } finally {
    reader.releaseLock();
  }
}

/** Whether an answer means yes; anything but y and yes does not. */
export function isYes(answer: string): boolean {
  return /^\s*y(es)?\s*$/i.test(answer);
}
