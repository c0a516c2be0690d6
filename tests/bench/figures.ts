/** One measured quantity: its samples' quantiles, in its unit. */
export interface Figure {
  readonly name: string;
  readonly unit:
    | "ms"
    | "s"
    | "MiB"
    | "packets"
    | "µs"
    | "requests"
    | "seats"
    | "events"
    | "Mbit/s"
    | "%";
  readonly n: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
  /** What it is to reach, in words; most targets compare two figures, and are in docs/performance.md. */
  readonly target?: string;
}

/** Quantiles by the nearest rank. */
export function figure(
  name: string,
  unit: Figure["unit"],
  samples: readonly number[],
  options: { readonly target?: string } = {},
): Figure {
  if (samples.length === 0) {
    throw new RangeError(`Cannot summarise "${name}": there is no sample`);
  }
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (q: number) => {
    const rank = Math.max(1, Math.ceil(q * sorted.length));
    return round(sorted[rank - 1] ?? NaN);
  };
  return {
    name,
    unit,
    n: samples.length,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    max: at(1),
    ...options,
  };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** The figures as a table, for people. */
export function asTable(figures: readonly Figure[]): string {
  const header = ["figure", "unit", "n", "p50", "p90", "p99", "max", "target"];
  const rows = figures.map((f) => [
    f.name,
    f.unit,
    String(f.n),
    ...[f.p50, f.p90, f.p99, f.max].map((v) => v.toFixed(v < 100 ? 2 : 0)),
    f.target ?? "",
  ]);
  const widths = header.map((title, i) =>
    Math.max(title.length, ...rows.map((row) => (row[i] ?? "").length))
  );
  return [header, ...rows].map((row) =>
    row.map((cell, i) =>
      i < 2 || i === row.length - 1
        ? cell.padEnd(widths[i] ?? 0)
        : cell.padStart(widths[i] ?? 0)
    ).join("  ").trimEnd()
  ).join("\n");
}
