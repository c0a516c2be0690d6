import type { BlockCounts, PoolForecast } from "../../../lib/api/mod.ts";
import {
  abortable,
  type Clock,
  jittered,
  sleep,
  systemClock,
  type TaskGroup,
} from "../../../lib/async/mod.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** A pool is noted about so often. */
const SAMPLE_INTERVAL_MS = 5 * MINUTE_MS;

/** The rate is that of the last so many hours; of a shorter time than the least nothing is said, since pods of a rollout come all at once. */
const WINDOW_MS = 6 * HOUR_MS;
const LEAST_WINDOW_MS = HOUR_MS;

interface Sample {
  readonly atMs: number;
  readonly allocated: number;
  readonly busy: number;
}

/** How fast pools are used up. Nothing of it is stored: a new leader knows it after an hour. */
export class Growth {
  readonly #clock: Clock;
  readonly #samples = new Map<string, Sample[]>();

  constructor({ clock = systemClock }: { readonly clock?: Clock } = {}) {
    this.#clock = clock;
  }

  /**
   * Takes note of a pool's blocks, and of how many of them pods have addresses;
   * undefined where too little is known yet.
   *
   * Blocks that nodes keep empty use up no pool: they come back when few are
   * left. And blocks that nodes have kept may get pods again. So it grows only
   * where both numbers do; those with pods stand for as many in use as before,
   * since a node may have one more in store for its next pods.
   */
  note(
    pool: string,
    { allocated, free }: BlockCounts,
    busy: number,
  ): PoolForecast | undefined {
    const atMs = this.#clock.nowMs();
    const samples = this.#samples.getOrInsert(pool, []);
    const last = samples.at(-1);
    // mutate: only bounds memory.
    if (last === undefined || atMs - last.atMs >= SAMPLE_INTERVAL_MS) {
      samples.push({ atMs, allocated, busy });
    }
    while (atMs - (samples[0]?.atMs ?? atMs) > WINDOW_MS) samples.shift();
    const [first] = samples;
    const sinceMs = atMs - (first?.atMs ?? atMs);
    if (first === undefined || sinceMs < LEAST_WINDOW_MS) return undefined;
    const each = first.busy === 0 ? Infinity : first.allocated / first.busy;
    const more = Math.min(
      allocated - first.allocated,
      busy === first.busy ? 0 : each * (busy - first.busy),
    );
    const blocksPerHour = more * HOUR_MS / sinceMs;
    const hoursLeft = blocksPerHour > 0 ? free / blocksPerHour : undefined;
    return { blocksPerHour, hoursLeft };
  }

  /** Forgets a pool. */
  drop(pool: string): void {
    this.#samples.delete(pool);
  }
}

/** Has all pools counted when the pods are known, and now and then: how fast one grows follows from the time, too. */
export function countPools(
  group: TaskGroup,
  { pods, enqueueAll }: {
    /** Without them it is not known what is used. */
    readonly pods: { readonly synced: Promise<void> } | undefined;
    readonly enqueueAll: () => void;
  },
): void {
  group.run("first usage", async (signal) => {
    await abortable(pods?.synced ?? Promise.resolve(), signal);
    enqueueAll();
  });
  group.run("pool growth", async (signal) => {
    for (;;) {
      await sleep(jittered(SAMPLE_INTERVAL_MS), { signal });
      enqueueAll();
    }
  });
}
