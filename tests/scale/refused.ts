// Nodes that ask for a block of a pool that has none.
import { Backoff } from "../../lib/async/mod.ts";
import type { Random } from "../faults/random.ts";
import type { SimClock } from "./clock.ts";

/** A node that was refused a block is answered after about so long. */
const ANSWER_MS = 100;
/** When such a node asks again without need, to have a block in advance. */
const PREFETCH = { initialMs: 2_000, maxMs: 120_000 };

/**
 * Nodes whose blocks are full: each asks for one for a pod that kubelet tries
 * again, and for one in advance, less and less often, unless it forgets that
 * it was refused.
 */
export class RefusedNodes {
  readonly #with: { readonly clock: SimClock; readonly random: Random };
  readonly #onRefusal: () => void;
  /** Of each node. */
  readonly #asks: (() => void)[] = [];

  constructor(
    parts: { readonly clock: SimClock; readonly random: Random },
    onRefusal: () => void,
  ) {
    this.#with = parts;
    this.#onRefusal = onRefusal;
  }

  /** One more node asks from now on. */
  start(retryMs: number): void {
    const { clock, random } = this.#with;
    const backoff = new Backoff({ ...PREFETCH, random: () => random.next() });
    let isAsking = false;
    const ask = () => {
      if (isAsking) return;
      isAsking = true;
      this.#onRefusal();
      clock.after(ANSWER_MS, () => isAsking = false);
    };
    const retry = () => {
      ask();
      clock.after(retryMs, retry);
    };
    const prefetch = () => {
      ask();
      clock.after(backoff.nextMs(), prefetch);
    };
    retry();
    prefetch();
    this.#asks.push(ask);
  }

  /** All of them forget that they were refused, and ask. */
  forget(): void {
    for (const ask of this.#asks) ask();
  }
}
