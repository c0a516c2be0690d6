import { onAbort } from "../async/mod.ts";
import { printAll } from "../flags/mod.ts";
import { CommandError } from "./errors.ts";

/** Where a command writes to, what it knows of the time, and who answers its questions. */
export interface Terminal {
  /** Takes what was asked for. */
  out(text: string): void;
  /** Takes messages beside the output. */
  err(text: string): void;
  /** What time it is, for people. */
  now(): Date;
  /** Whether `out` is a screen that can be cleared; false if not said. */
  readonly isScreen?: boolean | undefined;
  /** Whether `out` shows colours; false if not said. */
  readonly colours?: boolean | undefined;
  /** Whether a user sees what is written to `err` as it comes; false if not said. */
  readonly isInteractive?: boolean | undefined;
  /** Asks for a yes; undefined when there is no user to ask. */
  ask?(question: string, signal: AbortSignal): Promise<boolean | undefined>;
}

/** Asks whether to go on. @throws {CommandError} when there is no user to ask */
export async function confirm(
  { terminal, signal }: {
    readonly terminal: Pick<Terminal, "ask">;
    readonly signal: AbortSignal;
  },
  question: string,
): Promise<boolean> {
  const answer = await terminal.ask?.(question, signal);
  if (answer !== undefined) return answer;
  throw new CommandError(
    "Cannot ask for confirmation: stdin is not a terminal\nUse --yes to skip the question, or --dry-run to change nothing. Nothing was changed.",
  );
}

/** The terminal that the process was started at. `onReaderGone` is called when something is written that is not read, as after "| head". */
export function processTerminal(onReaderGone: () => void): Terminal {
  const print = (stream: Parameters<typeof printAll>[0], text: string) => {
    if (!printAll(stream, text)) onReaderGone();
  };
  const isScreen = Deno.stdout.isTerminal();
  return {
    out: (text) => print(Deno.stdout, text),
    err: (text) => print(Deno.stderr, text),
    now: () => new Date(),
    isScreen,
    // https://no-color.org
    colours: isScreen && !Deno.noColor,
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
