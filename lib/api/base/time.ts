/** A time as objects have it: RFC 3339, in whole seconds. */
export function timeText(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, "Z");
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const YEAR_MS = 365 * DAY_MS;

/**
 * Largest unit, a second unit below it, and up to which age both are shown,
 * or the first alone: HumanDuration of k8s.io/apimachinery/pkg/util/duration.
 */
const AGES: readonly {
  readonly below: number;
  readonly unit: readonly [number, string];
  readonly rest?: readonly [number, string];
}[] = [
  { below: 2 * MINUTE_MS, unit: [SECOND_MS, "s"] },
  { below: 10 * MINUTE_MS, unit: [MINUTE_MS, "m"], rest: [SECOND_MS, "s"] },
  { below: 3 * HOUR_MS, unit: [MINUTE_MS, "m"] },
  { below: 8 * HOUR_MS, unit: [HOUR_MS, "h"], rest: [MINUTE_MS, "m"] },
  { below: 2 * DAY_MS, unit: [HOUR_MS, "h"] },
  { below: 8 * DAY_MS, unit: [DAY_MS, "d"], rest: [HOUR_MS, "h"] },
  { below: 2 * YEAR_MS, unit: [DAY_MS, "d"] },
  { below: 8 * YEAR_MS, unit: [YEAR_MS, "y"], rest: [DAY_MS, "d"] },
  { below: Infinity, unit: [YEAR_MS, "y"] },
];

/** Formats the time since `since` (RFC 3339) as kubectl formats ages. */
export function formatAge(since: string | undefined, now: Date): string {
  const start = Date.parse(since ?? "");
  if (Number.isNaN(start)) return "-";
  const ms = Math.max(0, now.getTime() - start);
  const entry = AGES.find(({ below }) => ms < below);
  if (entry === undefined) return "-";
  const { unit: [size, letter], rest } = entry;
  const text = `${Math.floor(ms / size)}${letter}`;
  if (rest === undefined) return text;
  const more = Math.floor((ms % size) / rest[0]);
  return more === 0 ? text : `${text}${more}${rest[1]}`;
}
