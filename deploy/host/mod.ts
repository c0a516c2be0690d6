/**
 * What scripts that build, and tests, use of the machine: its cache, its
 * commands, Debian's packages.
 *
 * @module
 */
export { PackageFetcher } from "./apt.ts";
export { cacheDir, lockFile, removeUnused } from "./cache.ts";
export { CommandError, run, type RunOptions } from "./command.ts";
export { TextLineStream } from "./lines.ts";
export type { Log } from "./log.ts";
