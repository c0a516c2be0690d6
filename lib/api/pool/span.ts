/** Indices from `first` to `last`, both included. */
export interface Span {
  readonly first: number;
  readonly last: number;
}

/** Sorts spans and joins those that touch. */
export function mergeSpans(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const span of spans.toSorted((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before === undefined || before.last + 1 < span.first) {
      merged.push(span);
    } else {
      const last = Math.max(before.last, span.last);
      merged[merged.length - 1] = { first: before.first, last };
    }
  }
  return merged;
}

/** Finds the span that has the index, among sorted ones. */
export function spanAt(
  spans: readonly Span[],
  index: number,
): Span | undefined {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle]?.last ?? 0) < index) low = middle + 1;
    else high = middle;
  }
  const span = spans[low];
  return span !== undefined && span.first <= index ? span : undefined;
}
