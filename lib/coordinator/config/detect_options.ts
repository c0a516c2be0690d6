import type { JsonObject } from "../../json/mod.ts";
import { parseInteger, parseObject, parseText } from "../../cni/mod.ts";
import type { ProbeTimes } from "../../probe/mod.ts";
import { invalidConfig } from "./invalid.ts";

/** A window of 300 ms, in which nearly every machine answers. */
export const DETECT_TIMES: ProbeTimes = {
  retries: 3,
  intervalMs: 100,
  timeoutMs: 100,
};

const MAX_RETRIES = 10;
/** A runtime waits a minute at most. */
const MAX_MS = 5_000;

/**
 * Reads `detectOptions`.
 *
 * @throws {CniError} with code 6 when it has another JSON type, 7 when a value cannot be used
 */
export function parseDetectOptions(value: unknown): ProbeTimes | undefined {
  if (value === undefined || value === null) return undefined;
  const json = parseObject(value, "detectOptions");
  const retries = parseInteger(json["retries"], "detectOptions.retries") ??
    DETECT_TIMES.retries;
  if (retries < 1 || retries > MAX_RETRIES) {
    throw invalidConfig(
      `invalid detectOptions.retries ${retries}`,
      `it must be from 1 to ${MAX_RETRIES}`,
    );
  }
  return {
    retries,
    intervalMs: parseTime(json, "interval") ?? DETECT_TIMES.intervalMs,
    timeoutMs: parseTime(json, "timeout") ?? DETECT_TIMES.timeoutMs,
  };
}

function parseTime(json: JsonObject, key: string): number | undefined {
  const what = `detectOptions.${key}`;
  const text = parseText(json[key], what);
  if (text === undefined) return undefined;
  const ms = tryParseMs(text);
  if (ms !== undefined && ms <= MAX_MS) return ms;
  throw invalidConfig(
    `invalid ${what} "${text}"`,
    `it must be a time such as 100ms or 1s, at most ${MAX_MS / 1_000}s`,
  );
}

/** Milliseconds or seconds: longer times make no sense here. */
function tryParseMs(text: string): number | undefined {
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s)$/.exec(text.trim()) ?? [];
  if (number === undefined) return undefined;
  return Number(number) * (unit === "s" ? 1_000 : 1);
}
