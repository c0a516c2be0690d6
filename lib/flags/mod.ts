/**
 * Command line flags in the syntax of Go's pflag, typed from their declaration, and what a command prints.
 *
 * @module
 */
export {
  completion,
  type CompletionCommand,
  type Shell,
} from "./completion.ts";
export { formatDuration, parseDurationMs } from "./duration.ts";
export {
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
  type LoggingFlags,
  type ZapTimeEncoding,
} from "./logging_flags.ts";
export {
  type CommandLine,
  type ParsedFlags,
  parseFlags,
  type ProgramInfo,
  readCommandLine,
  refuseCommandLine,
  UsageError,
} from "./parse.ts";
export {
  type BoolFlag,
  defineFlags,
  type DurationFlag,
  type EnumFlag,
  type Flag,
  type FlagCommon,
  type FlagSpec,
  type FlagValue,
  type FlagValues,
  ignoredFlags,
  type IntFlag,
  type StringFlag,
  type StringListFlag,
} from "./spec.ts";
export { flagsMarkdown, usage } from "./usage.ts";
export { writeAll } from "./write_all.ts";
