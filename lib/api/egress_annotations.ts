import { EGRESS_ANNOTATION_PREFIX } from "../names/mod.ts";

/** Egresses of one namespace that a pod is a client of. */
export interface EgressReferences {
  /** Namespace of the Egresses. */
  readonly namespace: string;
  /** Their names, sorted, each once. */
  readonly names: readonly string[];
}

/**
 * Reads from a pod's annotations which Egresses it is a client of. Blanks
 * around names, empty names and repeated ones do not count; a namespace
 * without a name is left out. Sorted by namespace, so that every reader has
 * the Egresses in the same order.
 */
export function parseEgressAnnotations(
  annotations: Readonly<Record<string, string>> | undefined,
): EgressReferences[] {
  const references: EgressReferences[] = [];
  for (const [key, value] of Object.entries(annotations ?? {})) {
    if (!key.startsWith(EGRESS_ANNOTATION_PREFIX)) continue;
    const namespace = key.slice(EGRESS_ANNOTATION_PREFIX.length);
    const names = value.split(",").map((name) => name.trim());
    const wanted = new Set(names.filter((name) => name !== ""));
    if (namespace === "" || wanted.size === 0) continue;
    references.push({ namespace, names: [...wanted].sort() });
  }
  return references.sort((a, b) => compareText(a.namespace, b.namespace));
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
