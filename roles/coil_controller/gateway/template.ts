import { isJsonObject } from "../../../lib/json/mod.ts";
import { parseEgressAnnotations } from "../../../lib/api/mod.ts";
import { EGRESS_ANNOTATION_PREFIX } from "../../../lib/names/mod.ts";

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
  return check(value ?? [], {
    field,
    is: (v) => Array.isArray(v) && v.every(isJsonObject),
    must: "a list of objects",
  });
}

/**
 * Returns a list of texts of the template, an empty one when it is absent.
 *
 * @throws {InvalidTemplateError} when it is something else
 */
export function textsOf(
  value: readonly string[] | null | undefined,
  field: string,
): readonly string[] {
  return check(value ?? [], {
    field,
    is: (v) => Array.isArray(v) && v.every((text) => typeof text === "string"),
    must: "a list of texts",
  });
}

/**
 * Returns a number of the template, 0 when it is absent.
 *
 * @throws {InvalidTemplateError} when it is something else
 */
export function numberOf(
  value: number | null | undefined,
  field: string,
): number {
  return check(value ?? 0, { field, is: Number.isFinite, must: "a number" });
}

/**
 * Returns the annotations of the template. A gateway is not a client: it deletes
 * the tunnels of one from its network, and packets would leave by another way.
 *
 * @throws {InvalidTemplateError} when one of them names an Egress
 */
export function gatewayAnnotations(
  annotations: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> | undefined {
  const [first] = parseEgressAnnotations(annotations);
  if (first === undefined) return annotations;
  throw new InvalidTemplateError(
    `Cannot use spec.template.metadata.annotations: a gateway cannot be the client of an Egress; remove annotation "${EGRESS_ANNOTATION_PREFIX}${first.namespace}"`,
  );
}

function check<T>(
  value: T,
  { field, is, must }: {
    readonly field: string;
    readonly is: (value: unknown) => boolean;
    readonly must: string;
  },
): T {
  if (is(value)) return value;
  throw new InvalidTemplateError(
    `Cannot use spec.template.spec.${field}: it must be ${must}, got ${
      JSON.stringify(value)
    }`,
  );
}
