import type {
  BoolFlag,
  EnumFlag,
  FlagValues,
  IntFlag,
  StringFlag,
} from "./spec.ts";

const KLOG = "klog flag, accepted for existing manifests without effect";

const klogText = (value: string): StringFlag => ({
  type: "string",
  default: value,
  help: KLOG,
  hidden: true,
});
const klogBool = (value: boolean): BoolFlag => ({
  type: "bool",
  default: value,
  help: KLOG,
  hidden: true,
});

/** The names of zap's time encodings. */
export type ZapTimeEncoding =
  | "epoch"
  | "millis"
  | "nano"
  | "iso8601"
  | "rfc3339"
  | "rfc3339nano";

/** The flags about logs that all daemons take: zap's, and klog's, which are accepted only. */
export type LoggingFlags = {
  readonly "zap-devel": BoolFlag;
  readonly "zap-encoder": EnumFlag<"json" | "console">;
  readonly "zap-log-level": StringFlag;
  readonly "zap-stacktrace-level": EnumFlag<"info" | "error" | "panic">;
  readonly "zap-time-encoding": EnumFlag<ZapTimeEncoding>;
  readonly "v": IntFlag;
  readonly "vmodule": StringFlag;
  readonly "logtostderr": BoolFlag;
  readonly "alsologtostderr": BoolFlag;
  readonly "alsologtostderrthreshold": StringFlag;
  readonly "stderrthreshold": StringFlag;
  readonly "legacy_stderr_threshold_behavior": BoolFlag;
  readonly "log_dir": StringFlag;
  readonly "log_file": StringFlag;
  readonly "log_file_max_size": StringFlag;
  readonly "log_backtrace_at": StringFlag;
  readonly "add_dir_header": BoolFlag;
  readonly "skip_headers": BoolFlag;
  readonly "skip_log_headers": BoolFlag;
  readonly "one_output": BoolFlag;
};

/** Declares {@linkcode LoggingFlags}; spread it into a daemon's flags. */
export const LOGGING_FLAGS: LoggingFlags = {
  "zap-devel": {
    type: "bool",
    default: false,
    help:
      "Development logging: console format, level debug, ISO 8601 times, stacks",
  },
  "zap-encoder": {
    type: "enum",
    default: "json",
    values: ["json", "console"],
    help: "Format of log records",
  },
  "zap-log-level": {
    type: "string",
    default: "info",
    check: (text) => parseLevel(text) === undefined ? LEVEL_FORM : undefined,
    help:
      "Minimum level: debug, info, error, panic, or a number from 1 for debug",
  },
  "zap-stacktrace-level": {
    type: "enum",
    default: "panic",
    values: ["info", "error", "panic"],
    help: "Minimum level for logging an error's stack",
  },
  "zap-time-encoding": {
    type: "enum",
    default: "epoch",
    values: ["epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"],
    help: "Format of times in log records",
  },
  "v": { type: "int", default: 0, short: "v", help: KLOG, hidden: true },
  "vmodule": klogText(""),
  "logtostderr": klogBool(true),
  "alsologtostderr": klogBool(false),
  "alsologtostderrthreshold": klogText("0"),
  "stderrthreshold": klogText("2"),
  "legacy_stderr_threshold_behavior": klogBool(true),
  "log_dir": klogText(""),
  "log_file": klogText(""),
  "log_file_max_size": klogText("1800"),
  "log_backtrace_at": klogText(":0"),
  "add_dir_header": klogBool(false),
  "skip_headers": klogBool(false),
  "skip_log_headers": klogBool(false),
  "one_output": klogBool(false),
};

/** Values of the logging flags, in the shape that telemetry's configureLogging takes. */
export interface LoggingChoice {
  /** The lowest level written. */
  readonly level: "debug" | "info" | "warn" | "error" | "panic";
  /** The form of records. */
  readonly encoder: "json" | "console";
  /** The form of their times. */
  readonly timeEncoding: ZapTimeEncoding;
  /** The lowest level at which the stack of an error is written. */
  readonly stacktraceLevel: "info" | "error" | "panic";
}

/** Turns the values of {@linkcode LOGGING_FLAGS} into a choice. Flags that were given win over `--zap-devel`. */
export function loggingChoice(
  values: FlagValues<LoggingFlags>,
  given: ReadonlySet<string>,
): LoggingChoice {
  const devel = values["zap-devel"];
  const pick = <T>(name: string, value: T, develValue: T): T =>
    devel && !given.has(name) ? develValue : value;
  return {
    level: pick(
      "zap-log-level",
      parseLevel(values["zap-log-level"]) ?? "info",
      "debug",
    ),
    encoder: pick("zap-encoder", values["zap-encoder"], "console"),
    timeEncoding: pick(
      "zap-time-encoding",
      values["zap-time-encoding"],
      "iso8601",
    ),
    stacktraceLevel: pick(
      "zap-stacktrace-level",
      values["zap-stacktrace-level"],
      "error",
    ),
  };
}

const LEVEL_FORM = "needs debug, info, warn, error, panic or a positive number";

function parseLevel(text: string): LoggingChoice["level"] | undefined {
  const level = LEVELS.find((name) => name === text.toLowerCase());
  // zap counts verbosity upwards; this program has one level below info.
  return level ?? (/^[1-9][0-9]{0,2}$/.test(text) ? "debug" : undefined);
}

const LEVELS = ["debug", "info", "warn", "error", "panic"] as const;
