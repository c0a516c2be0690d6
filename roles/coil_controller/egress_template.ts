/** The template of an Egress is not what a pod's must be, in a way that the plan depends on. */
export class InvalidTemplateError extends Error {
  override readonly name = "InvalidTemplateError";
}

/**
 * Returns a list of the template, an empty one when it is absent. Only the
 * containers' names are checked by the schema of an Egress.
 *
 * @throws {InvalidTemplateError} when it is something else
 */
export function listOf<T>(
  value: readonly T[] | null | undefined,
  field: string,
): readonly T[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value) && value.every(isObject)) return value;
  throw new InvalidTemplateError(
    `Cannot use spec.template.spec.${field}: it must be a list of objects, got ${
      JSON.stringify(value)
    }`,
  );
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
