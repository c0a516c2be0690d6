import {
  type Egress,
  egressLabels,
  type EgressProblem,
} from "../../../lib/api/mod.ts";
import { KubeApiError, type KubeObject } from "../../../lib/kube/mod.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";
import { UnknownImageError } from "./image.ts";
import { InvalidTemplateError } from "./template.ts";

/** An object of the Egress' name belongs to another owner. */
export class NameTakenError extends Error {
  override readonly name = "NameTakenError";
}

/** Where the objects of an Egress are. */
export function targetOf(
  { metadata: { namespace = "", name = "" } }: Egress,
): NamespacedName {
  return { namespace, name };
}

/**
 * Makes a check that an object may be taken for the Egress': the Egress owns it, or
 * it has no owner and Coil's labels. Otherwise the check throws
 * {@linkcode NameTakenError}.
 */
export function ownerCheck(
  egress: Egress,
  kind: string,
): (found: KubeObject) => void {
  const { namespace, name } = targetOf(egress);
  return (found) => {
    const { ownerReferences = [], labels = {} } = found.metadata ?? {};
    const owner = ownerReferences.find((o) => o.controller);
    if (owner?.uid === egress.metadata.uid) return;
    const isLabelled = Object.entries(egressLabels(name))
      .every(([label, value]) => labels[label] === value);
    if (owner === undefined && isLabelled) return;
    const holder = owner === undefined
      ? "it was not made by Coil; delete it, or give the Egress another name"
      : owner.kind === "Egress" && owner.name === name
      ? "it belongs to an earlier Egress of this name, and waits for its deletion"
      : `it belongs to ${owner.kind} "${owner.name}"; give the Egress another name`;
    throw new NameTakenError(
      `Cannot apply ${kind} "${namespace}/${name}": ${holder}`,
    );
  };
}

/** Statuses after which the same request may succeed in a moment. */
const PASSING = [401, 408, 409, 429, 502, 503, 504];

/**
 * Makes a problem of an error that belongs into the status.
 *
 * @throws the error itself when it is the connection's or the server's, or a mistake in here
 */
export function problemOf(
  error: unknown,
  { kind, isFatal }: { readonly kind: string; readonly isFatal: boolean },
): EgressProblem {
  if (error instanceof InvalidTemplateError) {
    return { reason: "InvalidTemplate", message: error.message, isFatal };
  }
  if (error instanceof UnknownImageError) {
    return { reason: "UnknownImage", message: error.message, isFatal };
  }
  if (error instanceof NameTakenError) {
    return { reason: "NameTaken", message: error.message, isFatal };
  }
  if (error instanceof KubeApiError && !PASSING.includes(error.status)) {
    return { reason: `${kind}Refused`, message: error.message, isFatal };
  }
  throw error;
}
