/** How far into its share each choice is, for seeds that follow each other: they spread, and 0 is its begin. */
const GOLDEN_RATIO = (1 + Math.sqrt(5)) / 2;

/** How many to take, and which. */
export interface Sample {
  readonly size: number;
  readonly seed: number;
}

/** Takes `size` of them, one of each equally large share; another seed takes others. */
export function sampleOf<T>(
  all: readonly T[],
  { size, seed }: Sample,
): T[] {
  const step = Math.max(1, all.length / size);
  const part = (seed * GOLDEN_RATIO) % 1;
  const shares = Math.round(all.length / step);
  return Array.from({ length: shares }, (_, index) => {
    const begin = Math.ceil(index * step);
    const end = Math.ceil((index + 1) * step);
    return begin + Math.floor(part * (end - begin));
  }).flatMap((index) => all.slice(index, index + 1));
}

/** All of them in an order whose first part, however long, is spread over the whole. */
export function spread<T>(all: readonly T[]): T[] {
  return all.map((value, index) => ({ value, at: (index * GOLDEN_RATIO) % 1 }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
