// A clock that is turned: what is due next happens next, at once, however far away it is.

interface Due {
  readonly atMs: number;
  /** What is due at the same time happens in the order in which it was asked for. */
  readonly turn: number;
  readonly act: () => void;
}

/** Virtual time: a heap of what is due. */
export class SimClock {
  #nowMs = 0;
  #turns = 0;
  readonly #heap: Due[] = [];

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Has something happen after so long. */
  after(ms: number, act: () => void): void {
    const heap = this.#heap;
    const due = { atMs: this.#nowMs + ms, turn: this.#turns++, act };
    let at = heap.push(due) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(due, heap[parent])) break;
      heap[at] = heap[parent] ?? due;
      at = parent;
    }
    heap[at] = due;
  }

  /** Lets all happen that is due before this time. */
  runUntil(endMs: number): void {
    for (;;) {
      const [first] = this.#heap;
      if (first === undefined || first.atMs >= endMs) break;
      this.#removeFirst();
      this.#nowMs = first.atMs;
      first.act();
    }
    this.#nowMs = endMs;
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
