/**
 * Command line flags in the syntax of Go's pflag, typed from their declaration, environment variables, and what a command prints.
 *
 * @module
 */
export { CLUSTER_FLAGS, type ClusterValues } from "./cluster_flags.ts";
export {
  candidates,
  completion,
  type CompletionCommand,
} from "./completion.ts";
export { count } from "./count.ts";
export { formatDuration, parseDurationMs } from "./duration.ts";
export { requiredEnv } from "./environment.ts";
export { EXIT } from "./exit.ts";
export {
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
} from "./logging_flags.ts";
export {
  type ParsedFlags,
  parseFlags,
  type ProgramInfo,
  readCommandLine,
  refuseCommandLine,
  refuseTask,
  UsageError,
} from "./parse.ts";
export { servingFlags } from "./serving_flags.ts";
export {
  type BoolFlag,
  defineFlags,
  type DurationFlag,
  type EnumFlag,
  type FlagSpec,
  type FlagValues,
  ignoredFlags,
  type IntFlag,
  type StringFlag,
  type StringListFlag,
} from "./spec.ts";
export { printAll } from "./print_all.ts";
