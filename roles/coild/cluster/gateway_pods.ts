import {
  EGRESS_COMPONENT,
  parseEgressAnnotations,
} from "../../../lib/api/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import {
  APP_COMPONENT_LABEL,
  APP_NAME,
  APP_NAME_LABEL,
  EGRESS_ANNOTATION_PREFIX,
} from "../../../lib/names/mod.ts";

/** The labels by which a gateway is known. */
export const GATEWAY_LABELS: Readonly<Record<string, string>> = {
  [APP_NAME_LABEL]: APP_NAME,
  [APP_COMPONENT_LABEL]: EGRESS_COMPONENT,
};

/**
 * Whether a pod is a gateway of an Egress, by its labels. Such a pod is never
 * made a client: it would send by another gateway, or by itself, what it
 * forwards for its own clients.
 */
export function isGatewayPod(pod: V1Pod | undefined): boolean {
  const labels = pod?.metadata?.labels;
  return labels !== undefined &&
    Object.entries(GATEWAY_LABELS).every(([key, value]) =>
      labels[key] === value
    );
}

/** What to tell the owner of a gateway that is annotated as a client. */
export function gatewayRefusal({ metadata }: V1Pod): string {
  const references = parseEgressAnnotations(metadata?.annotations);
  const keys = references.map(({ namespace }) =>
    `"${EGRESS_ANNOTATION_PREFIX}${namespace}"`
  );
  return `The pod is a gateway of an Egress, which cannot be a client of one; remove its annotation ${
    keys.join(" and ")
  }`;
}
