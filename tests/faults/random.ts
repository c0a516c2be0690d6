/** Numbers that only look random: the same seed gives the same steps. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 (included) to 1 (excluded): mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from 0 to below the limit. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** One of the items; undefined of none. */
  tryPick<T>(items: readonly T[]): T | undefined {
    return items[this.below(items.length || 1)];
  }

  /** One of the items. @throws {RangeError} when there is none */
  pick<T>(items: readonly T[]): T {
    const item = this.tryPick(items);
    if (item === undefined) throw new RangeError("Cannot pick one of none");
    return item;
  }

  /** One of the keys, each as often as its weight says. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    const entries = Object.entries(weights) as [K, number][];
    const total = entries.reduce((sum, [, weight]) => sum + weight, 0);
    let rest = this.next() * total;
    for (const [key, weight] of entries) {
      rest -= weight;
      if (rest < 0) return key;
    }
    throw new RangeError("Cannot pick: all weights are zero");
  }
}

/**
 * The run's seed: `COIL_TEST_SEED`, else the commit's hash, so that each commit
 * is tried by other steps and the same commit always by the same.
 */
export async function seedOfRun(): Promise<number> {
  const given = Deno.env.get("COIL_TEST_SEED") ?? "";
  if (/^\d+$/.test(given)) return Number(given) >>> 0;
  if (given === "random") {
    return new Random(performance.timeOrigin).below(2 ** 32);
  }
  return await commitHash() ?? 1;
}

async function commitHash(): Promise<number | undefined> {
  const { success, stdout } = await new Deno.Command("git", {
    args: ["rev-parse", "--short=8", "HEAD"],
    cwd: new URL(".", import.meta.url).pathname,
    stdout: "piped",
    stderr: "null",
  }).output().catch(() => ({ success: false, stdout: new Uint8Array() }));
  const hash = Number(`0x${new TextDecoder().decode(stdout).trim()}`);
  return success && Number.isInteger(hash) ? hash >>> 0 : undefined;
}
