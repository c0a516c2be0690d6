import { jittered, sleep } from "../async/mod.ts";
import {
  type Bytes,
  ETH_P_ARP,
  ETH_P_IPV6,
  type Netns,
  openPacketSocket,
} from "../linux/mod.ts";
import type { Family } from "../inet/mod.ts";

/** Frames are read so often; the kernel keeps them in the meantime. */
const READ_MS = 2;
/** Between two reads no more are looked at: the event loop is for others, too. */
const FRAMES_AT_ONCE = 256;
/** The first bytes of a frame are enough. */
const FRAME_BYTES = 128;

/** The link that is asked by. */
export interface ProbeLink {
  /** Absent: the process's own. */
  readonly netns?: Netns | undefined;
  readonly index: number;
  /** In hexadecimal, colons between. */
  readonly mac: string;
  /** Does what takes a grace period of the kernel when the caller has its answer; at once unless given. */
  readonly later?: Later | undefined;
}

/** Does something behind the caller's back, or resolves when it is done. */
export type Later = (work: () => Promise<void>) => void | Promise<void>;

/** How often, and how long, is asked. */
export interface ProbeTimes {
  /** How many frames are sent. */
  readonly retries: number;
  /** Between two questions. */
  readonly intervalMs: number;
  /** After the last one. */
  readonly timeoutMs: number;
}

/**
 * Sends a frame `retries` times and looks at all that comes in until one is
 * the answer; undefined when none was until the end.
 *
 * @throws {LinuxError} when the link is down or gone
 */
export async function exchange<T>(
  link: ProbeLink,
  { family, question, isAnswer, times }: {
    readonly family: Family;
    readonly question: Bytes;
    readonly isAnswer: (frame: Uint8Array) => T | undefined;
    readonly times: ProbeTimes;
  },
): Promise<T | undefined> {
  const { retries, intervalMs, timeoutMs } = times;
  const protocol = family === "ipv4" ? ETH_P_ARP : ETH_P_IPV6;
  await using stack = new AsyncDisposableStack();
  const { later = (work) => work() } = link;
  const socket = openPacketSocket({ ...link, protocol });
  stack.defer(async () => await later(() => socket[Symbol.asyncDispose]()));
  const buffer = new Uint8Array(FRAME_BYTES);
  // From when the last question was really sent: a busy process is late.
  let dueMs = performance.now();
  for (let sent = 0;;) {
    const nowMs = performance.now();
    const isDue = nowMs >= dueMs;
    const isOver = isDue && sent === retries;
    if (isDue && !isOver) {
      socket.sendNow(question);
      sent++;
      dueMs = nowMs + (sent < retries ? intervalMs : timeoutMs);
    }
    for (let i = 0; i < FRAMES_AT_ONCE; i++) {
      const length = socket.receiveNow(buffer);
      if (length === undefined) break;
      const answer = isAnswer(buffer.subarray(0, length));
      if (answer !== undefined) return answer;
    }
    if (isOver) return undefined;
    await sleep(jittered(READ_MS));
  }
}

/** Sends frames, each so often as `times` says. */
export async function send(
  link: ProbeLink,
  { family, frame, times }: {
    readonly family: Family;
    readonly frame: Bytes;
    readonly times: Pick<ProbeTimes, "retries" | "intervalMs">;
  },
): Promise<void> {
  await exchange(link, {
    family,
    question: frame,
    isAnswer: () => undefined,
    times: { ...times, timeoutMs: 0 },
  });
}
