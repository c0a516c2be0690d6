import { isJsonObject, type JsonObject } from "../json/mod.ts";
import { CniError, ErrorCode } from "./errors.ts";

/** An error about JSON that does not have the shape of the specification. */
export function malformed(what: string, expected: string): CniError {
  return new CniError(`invalid ${what}: must be ${expected}`, {
    code: ErrorCode.DECODING_FAILURE,
  });
}

/** A JSON object that must be there. `what` names it in errors. @throws {CniError} with code 6 when it is anything else */
export function parseObject(value: unknown, what: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw malformed(what, "an object");
}

/** The items of a JSON array; none when it is absent or null. @throws {CniError} with code 6 when it is anything else */
export function parseList<T>(
  value: unknown,
  what: string,
  parse: (item: unknown, what: string) => T,
): T[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw malformed(what, "an array");
  return value.map((item, i) => parse(item, `${what}[${i}]`));
}

/** A string; undefined when it is absent, null or empty, as Go has it. @throws {CniError} with code 6 when it is anything else */
export function parseText(value: unknown, what: string): string | undefined {
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value !== "string") throw malformed(what, "a string");
  return value;
}

/** A string that must be there, and not be empty. @throws {CniError} with code 6 when it is anything else */
export function parseRequiredText(value: unknown, what: string): string {
  const text = parseText(value, what);
  if (text === undefined) throw malformed(what, "a non-empty string");
  return text;
}

/** A boolean; undefined when it is absent or null. @throws {CniError} with code 6 when it is anything else */
export function parseBoolean(
  value: unknown,
  what: string,
): boolean | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "boolean") throw malformed(what, "true or false");
  return value;
}

/** A whole number, up to 2^53 - 1 either way; undefined when it is absent or null. @throws {CniError} with code 6 when it is anything else */
export function parseInteger(
  value: unknown,
  what: string,
): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value)) {
    throw malformed(what, "a whole number");
  }
  return value;
}
