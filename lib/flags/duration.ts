const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "µs": 1e-3, // U+00B5
  "μs": 1e-3, // U+03BC
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Go counts nanoseconds in 63 bits: about 292 years. */
const MAX_MS = 2 ** 63 / 1e6;

const PART = /([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)/y;

/**
 * Parses a duration in Go's syntax ("300ms", "1h0m0s", "-1.5h", "0") to milliseconds.
 *
 * @throws {SyntaxError} when it is something else
 */
export function parseDurationMs(text: string): number {
  const sign = text.startsWith("-") ? -1 : 1;
  const body = text.replace(/^[+-]/, "");
  if (body === "0") return 0;
  let totalMs = 0;
  let end = 0;
  PART.lastIndex = 0;
  for (let part = PART.exec(body); part !== null; part = PART.exec(body)) {
    totalMs += Number(part[1]) * (UNIT_MS[part[2] ?? ""] ?? NaN);
    end = PART.lastIndex;
  }
  if (body === "" || end !== body.length || totalMs >= MAX_MS) {
    throw new SyntaxError(
      `Cannot parse duration: needs a form like "1h30m" or "10s", got ${
        JSON.stringify(text)
      }`,
    );
  }
  return sign * totalMs;
}

/** Formats milliseconds as Go prints durations: "10s", "5m0s", "1h0m0s", "250ms". */
export function formatDuration(ms: number): string {
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms === 0) return "0s";
  if (ms < 1000) return `${ms}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = `${(ms % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
