import { AsyncLocalStorage } from "node:async_hooks";
import {
  configureSync,
  getLogger as getLogTapeLogger,
  type LogLevel as LogTapeLevel,
  type LogRecord,
  withContext,
} from "@logtape/logtape";
import {
  describeError,
  formatConsole,
  formatJson,
  type LogEntry,
  type LogLevel,
  type TimeEncoding,
} from "./log_format.ts";

/** Which records are written, and how. */
export interface LoggingOptions {
  /** The lowest level written. Default "info". */
  readonly level?: LogLevel;
  /** Default "json". */
  readonly encoder?: "json" | "console";
  /** Default "epoch": seconds as a decimal number. */
  readonly timeEncoding?: TimeEncoding;
  /** The lowest level at which an error's stack is written too. Default "panic": never. */
  readonly stacktraceLevel?: LogLevel;
  /** Takes each finished line, without its end. Default: standard error. */
  readonly write?: (line: string) => void;
}

/** Data of a record. `err` takes what was thrown and is written as `error`, with its causes. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes records under one name. The message is constant; data goes into fields. */
export interface Logger {
  /** For developers. */
  debug(message: string, fields?: LogFields): void;
  /** State changed. */
  info(message: string, fields?: LogFields): void;
  /** Degraded, but at work. */
  warn(message: string, fields?: LogFields): void;
  /** An operator must act. */
  error(message: string, fields?: LogFields): void;
}

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error", "panic"];

const TO_LOGTAPE: Readonly<Record<LogLevel, LogTapeLevel>> = {
  debug: "debug",
  info: "info",
  warn: "warning",
  error: "error",
  panic: "fatal",
};

const FROM_LOGTAPE: Readonly<Record<LogTapeLevel, LogLevel>> = {
  trace: "debug",
  debug: "debug",
  info: "info",
  warning: "warn",
  error: "error",
  fatal: "panic",
};

const context = new AsyncLocalStorage<Record<string, unknown>>();
const encoder = new TextEncoder();

/** Says where and how records are written. Before the first call nothing is written; each call replaces the last. */
export function configureLogging(options: LoggingOptions = {}): void {
  const write = options.write ?? writeToStderr;
  const format = options.encoder === "console" ? formatConsole : formatJson;
  const timeEncoding = options.timeEncoding ?? "epoch";
  const stacktraceLevel = options.stacktraceLevel ?? "panic";
  configureSync({
    reset: true,
    contextLocalStorage: context,
    sinks: {
      lines: (record) =>
        write(format(toEntry(record, stacktraceLevel), timeEncoding)),
    },
    loggers: [
      {
        category: [],
        sinks: ["lines"],
        lowestLevel: TO_LOGTAPE[options.level ?? "info"],
      },
      // LogTape's messages about itself.
      { category: ["logtape", "meta"], lowestLevel: "error" },
    ],
  });
}

/** Returns the logger of the name; dots make it a path. Cheap, and may be called before logging is configured. */
export function getLogger(name: string): Logger {
  const logger = getLogTapeLogger(name.split("."));
  return {
    debug: (message, fields = {}) => logger.debug(message, fields),
    info: (message, fields = {}) => logger.info(message, fields),
    warn: (message, fields = {}) => logger.warning(message, fields),
    error: (message, fields = {}) => logger.error(message, fields),
  };
}

/** Runs `fn` so that all its records, also those after a wait, carry the fields. Nested calls add up. */
export function withLogContext<T>(fields: LogFields, fn: () => T): T {
  return withContext({ ...fields }, fn);
}

function toEntry(record: LogRecord, stacktraceLevel: LogLevel): LogEntry {
  const level = FROM_LOGTAPE[record.level];
  const { err, ...fields } = record.properties;
  // The level first: V8 makes the text of a stack when it is read, and Deno ends the process when that takes a file
  // descriptor (for a source map) and there is none.
  const withStack = LEVELS.indexOf(level) >= LEVELS.indexOf(stacktraceLevel) &&
    err instanceof Error && err.stack !== undefined;
  return {
    level,
    timeMs: record.timestamp,
    logger: record.category.join("."),
    message: typeof record.rawMessage === "string"
      ? record.rawMessage
      : record.rawMessage.join(""),
    fields: {
      ...fields,
      ...(err === undefined ? {} : { error: describeError(err) }),
      ...(withStack ? { stacktrace: err.stack } : {}),
    },
  };
}

function writeToStderr(line: string): void {
  let rest = encoder.encode(`${line}\n`);
  try {
    while (rest.length > 0) rest = rest.subarray(Deno.stderr.writeSync(rest));
  } catch (error) {
    // The reader of our errors is gone (EPIPE), or slow on a non-blocking pipe (EAGAIN). Logging must not end us.
    const expected = error instanceof Deno.errors.BrokenPipe ||
      error instanceof Deno.errors.WouldBlock;
    if (!expected) throw error;
  }
}
