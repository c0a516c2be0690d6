import type { Annotations, V1Pod } from "../../kube/mod.ts";
import { compareText, EGRESS_ANNOTATION_PREFIX } from "../../names/mod.ts";
import { isGatewayPod } from "./egress_objects.ts";

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
 * without a name is left out; a value that is too long has one name that is
 * not valid. Sorted by namespace, so that every reader has
 * the Egresses in the same order.
 */
export function parseEgressAnnotations(
  annotations: Annotations | undefined,
): EgressReferences[] {
  const references: EgressReferences[] = [];
  for (const [key, value] of Object.entries(annotations ?? {})) {
    if (!key.startsWith(EGRESS_ANNOTATION_PREFIX)) continue;
    const namespace = key.slice(EGRESS_ANNOTATION_PREFIX.length);
    const names = shortenEgressAnnotation(value).split(",")
      .map((name) => name.trim());
    const wanted = new Set(names.filter((name) => name !== ""));
    if (namespace === "" || wanted.size === 0) continue;
    references.push({ namespace, names: [...wanted].sort() });
  }
  return references.sort((a, b) => compareText(a.namespace, b.namespace));
}

/** Those annotations, of a pod or a namespace, that name Egresses; each as long as it may be in memory. */
export function egressAnnotationsOf(
  annotations: Annotations | undefined,
): Annotations {
  return Object.fromEntries(
    Object.entries(annotations ?? {})
      .filter(([key]) => key.startsWith(EGRESS_ANNOTATION_PREFIX))
      .map(([key, value]) => [key, shortenEgressAnnotation(value)]),
  );
}

/**
 * A pod's annotations with those of its namespace as defaults: of one key the
 * pod's own counts, and an empty one names no Egress. A gateway is no client by
 * default. `defaults` are as {@linkcode egressAnnotationsOf} returns them.
 */
export function withDefaultEgresses(
  pod: V1Pod,
  defaults: Annotations | undefined,
): Annotations | undefined {
  const { annotations } = pod.metadata ?? {};
  const isNone = defaults === undefined || Object.keys(defaults).length === 0;
  return isNone || isGatewayPod(pod)
    ? annotations
    : { ...defaults, ...annotations };
}

/** More Egresses than any pod has use for: each costs it tunnels, rules and routes. */
export const MAX_EGRESSES_OF_POD = 64;

/** Twice what that many names of the greatest length need. */
const MAX_VALUE_CHARS = 32_768;

/** The most characters of a wrong name in a message. */
const SHOWN_CHARS = 64;

/** A DNS label (RFC 1123), as names of namespaces are. */
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
/** A DNS subdomain (RFC 1123), as names of most objects are; 253 characters at most. */
const SUBDOMAIN =
  /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/**
 * Returns the value of an annotation as it may be kept in memory: one that is
 * too long to be used becomes a few words that are not valid either.
 */
export function shortenEgressAnnotation(value: string): string {
  return value.length <= MAX_VALUE_CHARS
    ? value
    // A copy: a slice would keep the whole text alive.
    : `(${value.length} characters)`;
}

/** Whether an Egress can have this name. */
export function isEgressName(name: string): boolean {
  return name.length <= 253 && SUBDOMAIN.test(name);
}

/**
 * Says why no client can be made by a pod's annotations: a name that no Egress
 * can have, or more than {@linkcode MAX_EGRESSES_OF_POD}. The text is short,
 * also when the annotations are long. Undefined when there is nothing wrong.
 */
export function egressAnnotationProblem(
  references: readonly EgressReferences[],
): string | undefined {
  let count = 0;
  for (const { namespace, names } of references) {
    count += names.length;
    const key = quote(`${EGRESS_ANNOTATION_PREFIX}${namespace}`);
    if (!LABEL.test(namespace)) {
      return `annotation ${key} does not end with the name of a namespace`;
    }
    const wrong = names.find((name) => !isEgressName(name));
    if (wrong === undefined) continue;
    return `annotation ${key} has ${
      quote(wrong)
    }, which cannot be the name of an Egress`;
  }
  return count <= MAX_EGRESSES_OF_POD
    ? undefined
    : `its annotations name ${count} Egresses, at most ${MAX_EGRESSES_OF_POD} are allowed`;
}

function quote(text: string): string {
  return text.length <= SHOWN_CHARS
    ? JSON.stringify(text)
    : `${
      JSON.stringify(text.slice(0, SHOWN_CHARS))
    }… (${text.length} characters)`;
}
