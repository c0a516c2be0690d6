import { parseEgressAnnotations } from "../../../lib/api/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { EGRESS_ANNOTATION_PREFIX } from "../../../lib/names/mod.ts";

/** The message for the owner of a gateway that is annotated as a client. */
export function gatewayRefusal({ metadata }: V1Pod): string {
  const references = parseEgressAnnotations(metadata?.annotations);
  const keys = references.map(({ namespace }) =>
    `"${EGRESS_ANNOTATION_PREFIX}${namespace}"`
  );
  return `The pod is a gateway of an Egress, which cannot be a client of one; remove its annotation ${
    keys.join(" and ")
  }`;
}
