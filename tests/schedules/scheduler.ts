/**
 * Decides every await: what a simulated API server or kernel does, and when its
 * answer comes, waits until the scheduler picks it. Time passes only when it says so.
 */
import { setImmediate } from "node:timers";
import type { Random } from "../faults/random.ts";
import { replaceTime } from "./replace_time.ts";

/** One life of a process; what a dead one asks for never happens. */
export interface Life {
  readonly name: string;
  isOver: boolean;
  /** Nothing happens to it for now, as after SIGSTOP. */
  isPaused?: boolean;
}

interface Point {
  readonly label: string;
  readonly life: Life;
  readonly go: () => void;
  readonly sinceMs: number;
  /** Others mostly come first: much may happen in the meantime. */
  readonly isSlow: boolean;
}

interface Timer {
  readonly id: number;
  readonly dueMs: number;
  readonly callback: () => void;
  readonly everyMs: number | undefined;
}

/** How often time passes while something else could happen. */
const TIME_CHANCE = 0.08;
/** How many of the answers take long. */
const SLOW_CHANCE = 0.15;
/** The kernel and the API server answer within this; a timer may still add half a minute. */
const LONGEST_MS = 20_000;
/** How much of what happened is told of a failure. */
const REMEMBERED = 120;

/** What a simulated API server or kernel waits for. */
export type Steps = Pick<Scheduler, "nowMs" | "point" | "random">;

/** Picks what happens next, by the seed alone. */
export class Scheduler {
  readonly random: Random;
  #points: Point[] = [];
  #timers: Timer[] = [];
  #ids = 0;
  #nowMs = 0;
  readonly #lately: string[] = [];
  /** Steps so far. */
  steps = 0;
  /** Of all that was picked: the same seed gives the same. */
  trace = 0;

  constructor(random: Random) {
    this.random = random;
  }

  /** The simulated time. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** What happened lately, oldest first, each with its time. */
  get lately(): string {
    return this.#lately.filter((text) => !text.endsWith(" time")).join("\n");
  }

  /** Whether something waits that is no timer. */
  get isBusy(): boolean {
    return this.#points.some(({ life }) => !life.isOver);
  }

  /** Resolves when the scheduler picks it; never when the life is over by then. */
  point(label: string, life: Life): Promise<void> {
    if (life.isOver) return new Promise(() => {});
    return new Promise((go) => {
      const isSlow = this.random.chance(SLOW_CHANCE);
      const sinceMs = this.#nowMs;
      this.#points.push({ label, life, go, isSlow, sinceMs });
    });
  }

  /** Lets one thing happen, and all that follows from it without another pick. False when nothing waits. */
  async step(): Promise<boolean> {
    this.steps++;
    this.#points = this.#points.filter(({ life }) => !life.isOver);
    const isTime = this.#ready.length === 0 ||
      (this.random.chance(TIME_CHANCE) && !this.#isOverdue);
    if (isTime && !this.#passTime()) return false;
    if (!isTime) this.#pickPoint();
    await settle();
    return true;
  }

  /** What may happen now. */
  get #ready(): readonly Point[] {
    return this.#points.filter(({ life }) => life.isPaused !== true);
  }

  /** Whether something has waited for so long that no more time may pass before it. */
  get #isOverdue(): boolean {
    const [oldest] = this.#ready;
    return oldest !== undefined && this.#nowMs - oldest.sinceMs > LONGEST_MS;
  }

  #pickPoint(): void {
    const ready = this.#ready;
    let point = this.random.pick(ready);
    for (let tries = 0; tries < 3; tries++) {
      if (!point.isSlow || this.random.chance(0.05)) break;
      point = this.random.pick(ready);
    }
    this.#points = this.#points.filter((other) => other !== point);
    this.note(point.label);
    point.go();
  }

  /** Lets time pass until the next timer. */
  #passTime(): boolean {
    const next = this.#timers.reduce<Timer | undefined>(
      (first, timer) =>
        first === undefined || timer.dueMs < first.dueMs ? timer : first,
      undefined,
    );
    if (next === undefined) return false;
    this.#timers = this.#timers.filter((timer) => timer !== next);
    this.#nowMs = Math.max(this.#nowMs, next.dueMs);
    if (next.everyMs !== undefined) {
      this.#timers.push({ ...next, dueMs: this.#nowMs + next.everyMs });
    }
    this.note("time");
    next.callback();
    return true;
  }

  /** Notes what happens, for the trace and for who reads it after a failure. */
  note(label: string): void {
    this.#lately.push(`${this.#nowMs} ${label}`);
    if (this.#lately.length > REMEMBERED) this.#lately.shift();
    for (let i = 0; i < label.length; i++) {
      this.trace = (Math.imul(this.trace, 31) + label.charCodeAt(i)) | 0;
    }
  }

  #startTimer(
    callback: () => void,
    ms: number | undefined,
    everyMs?: number,
  ): number {
    const id = ++this.#ids;
    const dueMs = this.#nowMs + Math.max(1, ms ?? 0);
    this.#timers.push({ id, dueMs, callback, everyMs });
    return id;
  }

  /** Takes the process' time, timers and chance over until disposed of. */
  install(): Disposable {
    return replaceTime({
      nowMs: () => this.#nowMs,
      random: () => this.random.next(),
      start: (callback, ms, everyMs) => this.#startTimer(callback, ms, everyMs),
      stop: (id) => {
        this.#timers = this.#timers.filter((timer) => timer.id !== id);
      },
    });
  }
}

/** Lets promises that are settled already do their work. */
export function settle(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
