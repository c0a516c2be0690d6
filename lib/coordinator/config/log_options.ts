import type { JsonObject } from "../../json/mod.ts";
import {
  CniError,
  type NetConf,
  parseInteger,
  parseObject,
  parseText,
} from "../../cni/mod.ts";
import { invalidConfig } from "./invalid.ts";

/** How much of a call is logged. `none`: upstream's `fatal` and `panic`, which no record has. */
export type CallLogLevel = "debug" | "info" | "warn" | "error" | "none";

/** Where and how a call is logged. */
export interface LogOptions {
  /** Absent: as everything else. */
  readonly level?: CallLogLevel | undefined;
  /** Of calls that coild does not serve. */
  readonly file?: string | undefined;
  /** The file is set aside when it is larger. */
  readonly maxSizeMib?: number | undefined;
}

const LOG_DIRECTORY = "/var/log/";

const LEVELS: ReadonlyMap<string, CallLogLevel> = new Map([
  ["debug", "debug"],
  ["info", "info"],
  ["warn", "warn"],
  ["error", "error"],
  ["fatal", "none"],
  ["panic", "none"],
]);

const ORDER: readonly CallLogLevel[] = ["debug", "info", "warn", "error"];

/** Whether a record of this level is wanted. */
export function isLogged(
  level: "info" | "warn",
  { level: least = "debug" }: LogOptions,
): boolean {
  return least !== "none" && ORDER.indexOf(level) >= ORDER.indexOf(least);
}

/**
 * Reads `logOptions`.
 *
 * @throws {CniError} with code 6 when it has another JSON type, 7 when a value cannot be used
 */
export function parseLogOptions(value: unknown): LogOptions {
  if (value === undefined || value === null) return {};
  const json = parseObject(value, "logOptions");
  const file = parseText(json["logFile"], "logOptions.logFile")?.trim();
  if (file && !isLogFile(file)) {
    throw invalidConfig(
      `invalid logFile "${file}"`,
      `logOptions.logFile must be below ${LOG_DIRECTORY}`,
    );
  }
  return {
    level: parseLevel(json),
    file: file === "" ? undefined : file,
    maxSizeMib: parseSize(json),
  };
}

/** As {@linkcode parseLogOptions}; what cannot be used does not count, since a pod must always go. */
export function logOptionsOf({ raw }: Pick<NetConf, "raw">): LogOptions {
  try {
    return parseLogOptions(raw["logOptions"]);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    return {};
  }
}

/** A user who may write network configurations must not write elsewhere on the node. */
function isLogFile(file: string): boolean {
  return file.startsWith(LOG_DIRECTORY) && !file.split("/").includes("..");
}

function parseLevel(json: JsonObject): CallLogLevel | undefined {
  const text = parseText(json["logLevel"], "logOptions.logLevel")?.trim();
  if (!text) return undefined;
  const level = LEVELS.get(text.toLowerCase());
  if (level !== undefined) return level;
  throw invalidConfig(
    `unsupported log level ${text}`,
    `logOptions.logLevel must be one of ${[...LEVELS.keys()].join(", ")}`,
  );
}

function parseSize(json: JsonObject): number | undefined {
  const size = parseInteger(json["logMaxSize"], "logOptions.logMaxSize");
  if (size === undefined || size === 0) return undefined;
  if (size > 0) return size;
  throw invalidConfig(
    `invalid logMaxSize ${size}`,
    "logOptions.logMaxSize must be a number of MiB",
  );
}
