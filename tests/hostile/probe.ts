/** Traffic under which something is removed. */
import { settled } from "../../lib/async/mod.ts";
import { assertWithin, eventually, lagWhile } from "../lab/mod.ts";

const INTERVAL_S = 0.02;
/** An answer comes within this time, or not while a test runs. */
const ANSWER = { timeoutMs: 60_000 };
/** Without an answer. One second is the aim. */
const MAX_GAP_MS = 5_000;

/** A ping every 20 ms, from a pod to an address. */
class Ping implements AsyncDisposable {
  readonly #to: string;
  readonly #child: Deno.ChildProcess;
  readonly #answersMs: number[] = [];
  readonly #reading: Promise<void>;

  constructor(netns: string, to: string) {
    this.#to = to;
    this.#child = new Deno.Command("nsenter", {
      args: [
        ...[`--net=/run/netns/${netns}`, "ping", "-D", "-n"],
        ...["-i", String(INTERVAL_S), "-w", "3600", to],
      ],
      stdout: "piped",
      stderr: "null",
    }).spawn();
    this.#reading = this.#read();
  }

  async #read(): Promise<void> {
    const lines = this.#child.stdout.pipeThrough(new TextDecoderStream());
    let rest = "";
    for await (const text of lines) {
      const whole = `${rest}${text}`.split("\n");
      rest = whole.pop() ?? "";
      for (const line of whole) {
        const at = /^\[(\d+\.\d+)\].* time=/.exec(line)?.[1];
        if (at !== undefined) this.#answersMs.push(Number(at) * 1_000);
      }
    }
  }

  /** Waits for the next answer. @throws {Error} when none comes within a minute. */
  async answered(): Promise<void> {
    const sinceMs = Date.now();
    await eventually(`an answer of ${this.#to}`, () => {
      return (this.#answersMs.at(-1) ?? 0) > sinceMs;
    }, ANSWER);
  }

  get longestGapMs(): number {
    const answers = this.#answersMs;
    return Math.max(...answers.map((at, i) => at - (answers[i - 1] ?? at)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGINT");
    } catch {
      // It has ended by itself.
    }
    await this.#child.status;
    await this.#reading;
  }
}

/**
 * Asserts that addresses answer a pod before and after `work`, and are silent
 * only for a moment while it runs. Returns the longest times without an answer, ms.
 */
export async function assertReachable(
  { from, to }: {
    readonly from: { readonly netns: string };
    readonly to: readonly string[];
  },
  work: () => Promise<unknown>,
): Promise<readonly number[]> {
  await using stack = new AsyncDisposableStack();
  const pings = to.map((each) => stack.use(new Ping(from.netns, each)));
  const answered = () => settled(pings.map((ping) => ping.answered()));
  await answered();
  const { lagMs } = await lagWhile(async () => {
    await work();
    await answered();
  });
  return pings.map(({ longestGapMs }, i) => {
    const what = `without an answer of ${to[i]}`;
    assertWithin(longestGapMs, { what, limitMs: MAX_GAP_MS, lagMs });
    return Math.round(longestGapMs);
  });
}
