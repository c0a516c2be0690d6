/**
 * Commands for administrators: defined with their flags, found, run, and ended with an exit code.
 *
 * @module
 */
export {
  type Call,
  type Command,
  type CommandContext,
  defineCommand,
  oneOf,
} from "./command.ts";
export { connect } from "./connect.ts";
export { CommandError, Interruption } from "./errors.ts";
export {
  commandList,
  type CommandRunner,
  type FoundCommand,
  runCommand,
} from "./run.ts";
export { confirm, isYes, processTerminal, type Terminal } from "./terminal.ts";
