import type { Clock } from "../../../lib/async/mod.ts";

/** How long nodes have been missing, by time that passes evenly: a node that comes back starts again when it goes again. */
export class MissingNodes {
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #sinceMs = new Map<string, number>();

  constructor(
    { clock, graceMs }: { readonly clock: Clock; readonly graceMs: number },
  ) {
    this.#clock = clock;
    this.#graceMs = graceMs;
  }

  /** The node went just now. */
  gone(node: string): void {
    this.#sinceMs.set(node, this.#clock.nowMs());
  }

  /** To be called when the node is there, or has no blocks left. */
  forget(node: string): void {
    this.#sinceMs.delete(node);
  }

  /** Milliseconds until its grace time is over; of a node that was not known to be missing, all of it. */
  graceLeftMs(node: string): number {
    const now = this.#clock.nowMs();
    const since = this.#sinceMs.get(node) ?? now;
    this.#sinceMs.set(node, since);
    return Math.max(0, since + this.#graceMs - now);
  }
}
