import type { V1Namespace } from "../../../lib/kube/mod.ts";
import {
  ANY_SOURCE_ANNOTATION,
  ANY_SOURCE_LABEL,
} from "../../../lib/names/mod.ts";

/** Which sources a pod's packets may have: its own addresses, any, or `refused`: it asks for any and has its own. */
export type SourceChoice = "own" | "any" | "refused";

/** Whether a pod asks to send from any source. */
export function asksForAnySource(
  annotations: Readonly<Record<string, string>> | undefined,
): boolean {
  return annotations?.[ANY_SOURCE_ANNOTATION] === "true";
}

/** Whether pods of a namespace may. Labels of namespaces are the administrator's, annotations of pods are not. */
export function allowsAnySource(namespace: V1Namespace | undefined): boolean {
  return namespace?.metadata?.labels?.[ANY_SOURCE_LABEL] === "true";
}

/** The message for the owner of a pod that asks for it without being allowed to. */
export function sourceRefusal(namespace: string): string {
  return `Annotation "${ANY_SOURCE_ANNOTATION}" has no effect: the pod can send from its own addresses only; ` +
    `an administrator can allow it by "kubectl label namespace ${namespace} ${ANY_SOURCE_LABEL}=true"`;
}
