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

/**
 * What others decide about gets into records: names, annotations, answers. Far
 * above what a field has; keeps others from filling a disk with one record.
 */
const MAX_TEXT_CHARS = 2_048;
const MAX_ITEMS = 64;
/** Of a field as JSON; of an error or a stack, too. */
const MAX_FIELD_CHARS = 8_192;

/** The record's own keys; a field of the same name gets a "_" behind. */
const OWN_KEYS: ReadonlySet<string> = new Set(["level", "ts", "logger", "msg"]);

/** Formats a record as one JSON object: `level ts logger msg`, then its fields. */
export function formatJson(entry: LogEntry, time: TimeEncoding): string {
  return toJson([
    ["level", entry.level],
    ["ts", formatTime(entry.timeMs, time)],
    ["logger", entry.logger === "" ? undefined : entry.logger],
    ["msg", cutText(entry.message, MAX_FIELD_CHARS)],
    ...Object.entries(entry.fields).map(([key, value]) =>
      [OWN_KEYS.has(key) ? `${key}_` : key, value] as const
    ),
  ]);
}

/** Formats a record for people: tab-separated, its fields as JSON at the end. */
export function formatConsole(entry: LogEntry, time: TimeEncoding): string {
  const parts = [
    String(formatTime(entry.timeMs, time)),
    entry.level.toUpperCase(),
    entry.logger,
    cutText(entry.message, MAX_FIELD_CHARS),
  ].filter((part) => part !== "");
  const fields = Object.entries(entry.fields);
  if (fields.length > 0) parts.push(toJson(fields));
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
  return describeChain(error, new Set());
}

/** Of an error that comes again, itself inside itself, nothing is said again. */
function describeChain(error: unknown, seen: Set<unknown>): string {
  const texts: string[] = [];
  let current = error;
  while (current !== undefined && current !== null && !seen.has(current)) {
    seen.add(current);
    texts.push(describeOne(current, seen));
    current = current instanceof Error ? current.cause : undefined;
  }
  // A wrapper that repeats its cause's text should not make the reader read it twice.
  return texts.filter((text, i) =>
    !(texts[i - 1] ?? "").includes(text) || text === ""
  ).join(": ");
}

function describeOne(error: unknown, seen: Set<unknown>): string {
  if (error instanceof AggregateError) {
    const inner = error.errors.map((one) => describeChain(one, seen))
      .filter((text) => text !== "").join("; ");
    return error.message === "" ? inner : `${error.message} (${inner})`;
  }
  if (error instanceof SuppressedError) {
    return `${describeChain(error.error, seen)} (after: ${
      describeChain(error.suppressed, seen)
    })`;
  }
  if (!(error instanceof Error)) {
    return typeof error === "object" ? valueToJson(error) ?? "" : String(error);
  }
  // The class says nothing to an admin; a developer finds it in the stack.
  return error.message || error.name;
}

function toJson(entries: readonly (readonly [string, unknown])[]): string {
  const members = entries.flatMap(([key, value]) => {
    const text = valueToJson(value);
    return text === undefined ? [] : [`${JSON.stringify(key)}:${text}`];
  });
  return `{${members.join(",")}}`;
}

/** Undefined for what JSON leaves out. */
function valueToJson(value: unknown): string | undefined {
  try {
    if (typeof value === "string") {
      return cutJson(JSON.stringify(cutText(value, MAX_FIELD_CHARS)));
    }
    const text = JSON.stringify(value, replaceUnusual);
    return text === undefined ? undefined : cutJson(text);
  } catch (error) {
    // Cyclic data or a failing toJSON(): it costs this value, not the record.
    const [reason = ""] = describeError(error).split("\n");
    return JSON.stringify(
      cutText(`unprintable: ${reason}`, MAX_TEXT_CHARS),
    );
  }
}

function replaceUnusual(_key: string, value: unknown): unknown {
  if (typeof value === "string") return cutText(value, MAX_TEXT_CHARS);
  if (typeof value === "bigint") return cutText(`${value}`, MAX_TEXT_CHARS);
  if (value instanceof Error) {
    return cutText(describeError(value), MAX_TEXT_CHARS);
  }
  if (value instanceof Map) return cutObject(value);
  if (value instanceof Set) {
    return cutItems([...take(value, MAX_ITEMS + 1)], value.size);
  }
  if (Array.isArray(value)) return cutItems(value, value.length);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  return entries.length > MAX_ITEMS ? cutObject(new Map(entries)) : value;
}

function cutText(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const start = text.slice(0, maxChars).toWellFormed();
  return `${start}… (${text.length} characters)`;
}

/** JSON that is too long, for example of lists in lists, becomes a text of its beginning. */
function cutJson(text: string): string {
  if (text.length <= MAX_FIELD_CHARS + MAX_TEXT_CHARS) return text;
  return JSON.stringify(cutText(text, MAX_TEXT_CHARS));
}

function cutItems(items: readonly unknown[], count: number): unknown {
  if (count <= MAX_ITEMS) return items;
  return [...items.slice(0, MAX_ITEMS), `… and ${count - MAX_ITEMS} more`];
}

function cutObject(
  members: ReadonlyMap<unknown, unknown>,
): Record<string, unknown> {
  const kept: Record<string, unknown> = Object.fromEntries(
    take(members, MAX_ITEMS),
  );
  const more = members.size - MAX_ITEMS;
  if (more > 0) kept["…"] = `and ${more} more`;
  return kept;
}

function* take<T>(items: Iterable<T>, count: number): Generator<T> {
  let left = count;
  for (const item of items) {
    if (left-- <= 0) return;
    yield item;
  }
}
