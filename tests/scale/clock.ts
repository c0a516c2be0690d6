// A clock that is turned: what is due next happens next, at once, however far away it is.
import type { Random } from "../faults/random.ts";
import { replaceTime } from "../schedules/replace_time.ts";
import { settle } from "../schedules/scheduler.ts";

interface Due {
  readonly atMs: number;
  /** What is due at the same time happens in the order in which it was asked for. */
  readonly turn: number;
  /** Undefined: it is no longer to happen. */
  act: (() => void) | undefined;
}

/** Virtual time: a heap of what is due. */
export class SimClock {
  #nowMs = 0;
  #turns = 0;
  readonly #heap: Due[] = [];

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Has something happen after so long; disposal prevents it. */
  after(ms: number, act: () => void): Disposable {
    const heap = this.#heap;
    const due: Due = { atMs: this.#nowMs + ms, turn: this.#turns++, act };
    let at = heap.push(due) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(due, heap[parent])) break;
      heap[at] = heap[parent] ?? due;
      at = parent;
    }
    heap[at] = due;
    return { [Symbol.dispose]: () => due.act = undefined };
  }

  /** Lets all happen that is due before this time. */
  runUntil(endMs: number): void {
    while (this.#runNext(endMs)) { /* it has happened */ }
    this.#nowMs = endMs;
  }

  /** The same for code that waits: each time, all that follows happens first. */
  async turnUntil(endMs: number): Promise<void> {
    while (this.#runNext(endMs)) await settle();
    this.#nowMs = endMs;
  }

  /** False: nothing is due before this time. */
  #runNext(endMs: number): boolean {
    for (;;) {
      const [first] = this.#heap;
      if (first === undefined || first.atMs >= endMs) return false;
      this.#removeFirst();
      if (first.act === undefined) continue;
      this.#nowMs = first.atMs;
      first.act();
      return true;
    }
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (isBefore(heap[child + 1], heap[child])) child++;
      const next = heap[child];
      if (next === undefined || !isBefore(next, last)) break;
      heap[at] = next;
      at = child;
    }
    heap[at] = last;
  }
}

function isBefore(a: Due | undefined, b: Due | undefined): boolean {
  if (a === undefined || b === undefined) return a !== undefined;
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.turn < b.turn);
}

/** Has the process' time, timers and chance be those of the clock and the seed, until disposed of. */
export function installClock(clock: SimClock, random: Random): Disposable {
  let ids = 0;
  const timers = new Map<unknown, Disposable>();
  const start = (callback: () => void, ms = 0, everyMs?: number) => {
    const id = ++ids;
    const arm = (afterMs: number) => {
      const timer = clock.after(Math.max(1, afterMs), () => {
        timers.delete(id);
        if (everyMs !== undefined) arm(everyMs);
        callback();
      });
      timers.set(id, timer);
    };
    arm(ms);
    return id;
  };
  return replaceTime({
    nowMs: () => clock.nowMs,
    random: () => random.next(),
    start,
    stop(id) {
      timers.get(id)?.[Symbol.dispose]();
      timers.delete(id);
    },
  });
}
