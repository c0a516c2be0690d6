/**
 * JSON whose shape is not known yet.
 *
 * @module
 */

/** A JSON object. */
export type JsonObject = { readonly [key: string]: unknown };

/** Whether what `JSON.parse()` returned is an object: neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The fields of a JSON object; none where the value is something else. */
export function fieldsOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** Reads JSON; undefined for other texts. The errors of `JSON.parse()` quote the text, which may have keys. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return undefined;
  }
}

/** Reads a JSON object; undefined for other texts. */
export function tryParseJsonObject(text: string): JsonObject | undefined {
  const value = tryParseJson(text);
  return isJsonObject(value) ? value : undefined;
}
