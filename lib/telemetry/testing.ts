/**
 * What tests of log records share.
 *
 * @module
 */
import { configureLogging } from "./mod.ts";

/** The lines logged from now on, until the next call: the log is the whole process's. */
export function loggedLines(): string[] {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  return lines;
}
