/**
 * What needs no package, for programs that have to start fast.
 *
 * @module
 */
export { describeError } from "./log_format.ts";
export { RepeatFilter } from "./repeat_filter.ts";
