/** Tries inputs made of a corpus, keeps those that reach what none did before, and says which breaks the rules. */
import { Random } from "../faults/random.ts";
import type { Coverage } from "./coverage.ts";
import { mutateBytes, mutateJson, mutateText } from "./mutate.ts";
import { Watchdog } from "./watchdog.ts";

/** What is tried. */
export interface Target {
  readonly name: string;
  readonly kind: "bytes" | "text" | "json";
  /** Whether what it throws is what it may throw. Default: a SyntaxError. */
  readonly mayThrow?: (error: unknown) => boolean;
  /** Reads the input, and what else is to hold: it throws when that does not. */
  readonly run: (input: Input) => void;
}

/** The same as bytes and as text. */
export interface Input {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly text: string;
}

/** An input that breaks a rule. */
export class Finding extends Error {
  override readonly name = "Finding";
}

/** Inputs between two looks at the coverage, which take longer than they. */
const BATCH = 24;
/** For any input. Of two tries the better one counts: a busy machine may stand still for as long. */
const LIMIT_MS = 3_000;
/** What takes as long does not come back. */
const END_MS = 30_000;

/** How long a target is tried. */
export interface FuzzOptions {
  readonly seed: number;
  readonly coverage: Coverage;
  /** Asked before each input, but for the corpus and one more. */
  readonly isOver: () => boolean;
  /** After this long without an answer to one input the process ends. Default: half a minute. */
  readonly limitMs?: number;
}

/** Tries a target; returns how many inputs were tried, and those that reached something new. @throws {Finding} */
export async function fuzz(
  target: Target,
  corpus: readonly string[],
  { seed, coverage, isOver, limitMs = END_MS }: FuzzOptions,
): Promise<{ readonly tried: number; readonly kept: readonly string[] }> {
  using watchdog = await Watchdog.start(limitMs);
  const random = new Random(seed);
  const known = corpus.map((line) => decode(target, line));
  for (const input of known) attempt(target, input, watchdog);
  await coverage.hasNew();
  const kept: Input[] = [];
  let tried = known.length;
  do {
    const all = [...known, ...kept];
    const batch: Input[] = [];
    do {
      const input = mutate(target, random, all);
      attempt(target, input, watchdog);
      batch.push(input);
    } while (batch.length < BATCH && !isOver());
    tried += batch.length;
    if (!await coverage.hasNew()) continue;
    // Which of them it was does not matter much: all are near it.
    kept.push(random.pick(batch), random.pick(batch));
  } while (!isOver());
  return { tried, kept: kept.map((input) => encode(target, input)) };
}

/** Reads a line of the corpus: hexadecimal digits, or a JSON string. */
export function decode({ kind }: Target, line: string): Input {
  if (kind === "bytes") return ofBytes(Uint8Array.fromHex(line));
  return ofText(JSON.parse(line) as string);
}

function encode({ kind }: Target, { bytes, text }: Input): string {
  return kind === "bytes" ? bytes.toHex() : JSON.stringify(text);
}

function mutate(
  { kind }: Target,
  random: Random,
  inputs: readonly Input[],
): Input {
  const [input, other] = [random.pick(inputs), random.pick(inputs)];
  if (kind === "bytes") {
    const bytes = mutateBytes(random, input.bytes, other.bytes);
    return ofBytes(new Uint8Array(bytes));
  }
  const change = kind === "json" ? mutateJson : mutateText;
  return ofText(change(random, input.text, other.text));
}

function ofBytes(bytes: Uint8Array<ArrayBuffer>): Input {
  return { bytes, text: new TextDecoder().decode(bytes) };
}

function ofText(text: string): Input {
  return { text, bytes: new TextEncoder().encode(text) };
}

function attempt(target: Target, input: Input, watchdog: Watchdog): void {
  if (timed(target, input, watchdog) <= LIMIT_MS) return;
  const ms = timed(target, input, watchdog);
  if (ms <= LIMIT_MS) return;
  throw new Finding(
    `${target.name} takes ${ms.toFixed(0)} ms on ${encode(target, input)}`,
  );
}

/** Runs the target once; returns how many milliseconds it took. @throws {Finding} */
function timed(target: Target, input: Input, watchdog: Watchdog): number {
  const { mayThrow = (error) => error instanceof SyntaxError } = target;
  const startMs = performance.now();
  try {
    const text = `${target.name} on ${encode(target, input)}`;
    watchdog.watch(text, () => target.run(input));
  } catch (cause) {
    if (!mayThrow(cause)) {
      throw new Finding(
        `${target.name} throws ${cause} on ${encode(target, input)}`,
        { cause },
      );
    }
  }
  return performance.now() - startMs;
}
