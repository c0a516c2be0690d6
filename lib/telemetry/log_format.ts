/** How a record's time is written: zap's names for it. */
export type TimeEncoding =
  | "epoch"
  | "millis"
  | "nano"
  | "iso8601"
  | "rfc3339"
  | "rfc3339nano";

/** Levels of records, in rising order. */
export type LogLevel = "debug" | "info" | "warn" | "error" | "panic";

/** One record, ready to be written. */
export interface LogEntry {
  readonly level: LogLevel;
  readonly timeMs: number;
  readonly logger: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Formats a record as one JSON object: `level ts logger msg`, then its fields. */
export function formatJson(entry: LogEntry, time: TimeEncoding): string {
  const ts = formatTime(entry.timeMs, time);
  return toJson({
    level: entry.level,
    ts,
    ...(entry.logger === "" ? {} : { logger: entry.logger }),
    msg: entry.message,
    ...entry.fields,
  });
}

/** Formats a record for people: tab-separated, its fields as JSON at the end. */
export function formatConsole(entry: LogEntry, time: TimeEncoding): string {
  const parts = [
    String(formatTime(entry.timeMs, time)),
    entry.level.toUpperCase(),
    entry.logger,
    entry.message,
  ].filter((part) => part !== "");
  if (Object.keys(entry.fields).length > 0) parts.push(toJson(entry.fields));
  return parts.join("\t");
}

function formatTime(timeMs: number, encoding: TimeEncoding): string | number {
  const iso = new Date(timeMs).toISOString();
  switch (encoding) {
    case "epoch":
      return timeMs / 1000;
    case "millis":
      return timeMs;
    case "nano":
      return timeMs * 1e6;
    case "iso8601":
      return iso.replace("Z", "+0000");
    case "rfc3339":
      return iso.replace(/\.\d+Z$/, "Z");
    case "rfc3339nano":
      return iso.replace(/\.?0*Z$/, "Z");
  }
}

/** Describes an error with all its causes, outermost first, as "what: because: because". */
export function describeError(error: unknown): string {
  const texts: string[] = [];
  const seen = new Set<unknown>();
  let current = error;
  while (current !== undefined && current !== null && !seen.has(current)) {
    seen.add(current);
    texts.push(describeOne(current));
    current = current instanceof Error ? current.cause : undefined;
  }
  // A wrapper that repeats its cause's text should not make the reader read it twice.
  return texts.filter((text, i) =>
    !(texts[i - 1] ?? "").includes(text) || text === ""
  ).join(": ");
}

function describeOne(error: unknown): string {
  if (error instanceof AggregateError) {
    const inner = error.errors.map(describeError).join("; ");
    return error.message === "" ? inner : `${error.message} (${inner})`;
  }
  if (error instanceof SuppressedError) {
    return `${describeError(error.error)} (after: ${
      describeError(error.suppressed)
    })`;
  }
  if (!(error instanceof Error)) return String(error);
  return PROGRAMMING_ERRORS.has(error.name)
    ? `${error.name}: ${error.message}`
    : error.message || error.name;
}

/** Errors whose name a developer wants to see. */
const PROGRAMMING_ERRORS: ReadonlySet<string> = new Set([
  "ReferenceError",
  "TypeError",
  "RangeError",
  "AssertionError",
]);

function toJson(value: unknown): string {
  try {
    return JSON.stringify(value, replaceUnusual);
  } catch (error) {
    // Cyclic data or a failing toJSON(): the record matters more than the field.
    return JSON.stringify({
      ...(value instanceof Object && "msg" in value ? { msg: value.msg } : {}),
      unprintable: describeError(error),
    });
  }
}

function replaceUnusual(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Error) return describeError(value);
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof Set) return [...value];
  return value;
}
