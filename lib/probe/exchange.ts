import { jittered, sleep } from "../async/mod.ts";
import {
  type Bytes,
  ETH_P_ARP,
  ETH_P_IPV6,
  type Netns,
  openPacketSocket,
} from "../linux/mod.ts";
import type { Address } from "../inet/mod.ts";
import { framesAbout } from "./filter.ts";

/** Frames are read so long after a question, then at twice the distance each time: most answers come at once, and the kernel keeps them. */
const FIRST_READ_MS = 1;
const LONGEST_READ_MS = 16;
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
 * Sends a frame `retries` times and looks at all that comes in about an address
 * until one is the answer; undefined when none was until the end.
 *
 * @throws {LinuxError} when the link is down or gone
 */
export async function exchange<T>(
  link: ProbeLink,
  { about, question, isAnswer, times }: {
    readonly about: Address;
    readonly question: Bytes;
    readonly isAnswer: (frame: Uint8Array) => T | undefined;
    readonly times: ProbeTimes;
  },
): Promise<T | undefined> {
  const { retries, intervalMs, timeoutMs } = times;
  const protocol = about.family === "ipv4" ? ETH_P_ARP : ETH_P_IPV6;
  await using stack = new AsyncDisposableStack();
  const { later = (work) => work() } = link;
  const filter = framesAbout(about);
  const socket = openPacketSocket({ ...link, protocol, filter });
  stack.defer(async () => await later(() => socket[Symbol.asyncDispose]()));
  const buffer = new Uint8Array(FRAME_BYTES);
  // From when the last question was really sent: a busy process is late.
  let dueMs = performance.now();
  let readMs = FIRST_READ_MS;
  for (let sent = 0;;) {
    const nowMs = performance.now();
    const isDue = nowMs >= dueMs;
    const isOver = isDue && sent === retries;
    if (isDue && !isOver) {
      socket.sendNow(question);
      sent++;
      readMs = FIRST_READ_MS;
      dueMs = nowMs + (sent < retries ? intervalMs : timeoutMs);
    }
    for (let i = 0; i < FRAMES_AT_ONCE; i++) {
      const length = socket.receiveNow(buffer);
      if (length === undefined) break;
      const answer = isAnswer(buffer.subarray(0, length));
      if (answer !== undefined) return answer;
    }
    if (isOver) return undefined;
    const leftMs = dueMs - performance.now();
    await sleep(Math.max(0, Math.min(jittered(readMs), leftMs)));
    readMs = Math.min(2 * readMs, LONGEST_READ_MS);
  }
}

/** Sends frames, each so often as `times` says. */
export async function send(
  link: ProbeLink,
  { about, frame, times }: {
    readonly about: Address;
    readonly frame: Bytes;
    readonly times: Pick<ProbeTimes, "retries" | "intervalMs">;
  },
): Promise<void> {
  await exchange(link, {
    about,
    question: frame,
    isAnswer: () => undefined,
    times: { ...times, timeoutMs: 0 },
  });
}
