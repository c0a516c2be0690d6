import {
  APP_INSTANCE_LABEL,
  type GROUP_VERSION,
  type NamespacedName,
} from "../../names/mod.ts";
import type { ObjectMeta } from "../../kube/mod.ts";

/** The most clients in one slice, as many as EndpointSlices have endpoints by default: a change writes no more than that. */
export const MAX_SLICE_CLIENTS = 100;

/** A pod that uses an Egress. */
export interface EgressClient extends NamespacedName {
  readonly uid: string;
  readonly nodeName: string;
  /** As in its status; absent until it has some. */
  readonly addresses?: readonly string[];
}

/**
 * Some of the clients of an Egress, in its namespace. coil-controller writes
 * them, gateways read them; a client is in one slice, or for a moment in two.
 */
export interface EgressClientSlice {
  readonly apiVersion: typeof GROUP_VERSION;
  readonly kind: "EgressClientSlice";
  /** Name and labels lead to the Egress, which owns it. */
  readonly metadata: ObjectMeta;
  readonly clients?: readonly EgressClient[];
}

/** The number of the slice that every Egress has, also without clients; it is made when all others are there. */
export const FIRST_SLICE = 0;

/** Name of the Egress' slice of this number. */
export function clientSliceName(egress: string, number: number): string {
  return `${egress}-${number}`;
}

/** The Egress and the number in the name of a slice; undefined when it is not such a name. */
export function parseClientSliceName(
  name: string,
): { readonly egress: string; readonly number: number } | undefined {
  const [, egress, digits] = /^(.+)-(0|[1-9]\d{0,5})$/.exec(name) ?? [];
  if (egress === undefined || digits === undefined) return undefined;
  return { egress, number: Number(digits) };
}

/** Label selector of the slices of the Egress of this name. */
export function clientSliceSelector(egress: string): string {
  return `${APP_INSTANCE_LABEL}=${egress}`;
}
