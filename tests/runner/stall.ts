import { type Clock, systemClock } from "../../lib/async/mod.ts";

/** How long a suite may run, each of its files, and how long it may be silent. */
export interface StallLimits {
  readonly silentMs: number;
  readonly totalMs: number;
  readonly fileMs: number;
}

const MINUTE_MS = 60_000;
/** How often is looked what runs. */
const LOOK_MS = 5_000;

/** `churn` takes 11 minutes, `apiserver` beside others as long; the longest silent step of a suite takes less than three. */
export const LIMITS: StallLimits = {
  silentMs: 20 * MINUTE_MS,
  totalMs: 60 * MINUTE_MS,
  fileMs: 5 * MINUTE_MS,
};

/** Names what runs: files of tests. */
export type WhatRuns = () => Promise<readonly string[]>;

/** Options of {@linkcode StallWatch}. */
export interface StallOptions {
  readonly clock?: Clock | undefined;
  readonly limits?: StallLimits | undefined;
  readonly running?: WhatRuns | undefined;
}

/** Aborts its signal when a suite prints nothing for too long, or it or one of its files takes too long; the reason says which. */
export class StallWatch implements AsyncDisposable {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #limits: StallLimits;
  readonly #running: WhatRuns;
  readonly #total: Disposable;
  #silence: Disposable;
  #nextLook: Disposable;
  #look: Promise<void> | undefined;
  /** When each of what runs was seen first. */
  #since = new Map<string, number>();

  constructor(
    {
      clock = systemClock,
      limits = LIMITS,
      running = () => Promise.resolve([]),
    }: StallOptions = {},
  ) {
    this.#clock = clock;
    this.#limits = limits;
    this.#running = running;
    this.#total = this.#endAfter(limits.totalMs, "it took longer than");
    this.#silence = this.#expectOutput();
    this.#nextLook = this.#lookLater();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the suite was ended; undefined when it was not. */
  get reason(): string | undefined {
    return this.signal.aborted ? this.signal.reason.message : undefined;
  }

  /** The suite printed something. */
  heard(): void {
    this.#silence[Symbol.dispose]();
    this.#silence = this.#expectOutput();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#silence[Symbol.dispose]();
    this.#total[Symbol.dispose]();
    this.#nextLook[Symbol.dispose]();
    await this.#look;
  }

  #expectOutput(): Disposable {
    return this.#endAfter(this.#limits.silentMs, "it printed nothing for");
  }

  #endAfter(ms: number, what: string): Disposable {
    return this.#clock.after(ms, () => this.#end(what, ms));
  }

  #end(what: string, ms: number): void {
    const text = `ended: ${what} ${ms / MINUTE_MS} minutes`;
    this.#controller.abort(new Error(text));
  }

  #lookLater(): Disposable {
    return this.#clock.after(LOOK_MS, () => {
      this.#nextLook = this.#lookLater();
      this.#look ??= this.#lookAt(this.#clock.nowMs())
        .finally(() => this.#look = undefined);
    });
  }

  async #lookAt(nowMs: number): Promise<void> {
    const names = await this.#running();
    this.#since = new Map(
      names.map((name) => [name, this.#since.get(name) ?? nowMs]),
    );
    const { fileMs } = this.#limits;
    for (const [name, since] of this.#since) {
      if (nowMs - since < fileMs) continue;
      return this.#end(`${name} took longer than`, fileMs);
    }
  }
}
