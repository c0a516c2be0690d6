import type { OwnerReference } from "../kube/mod.ts";

/** The fields of Kubernetes' ObjectMeta that Coil reads or writes, as on the wire. */
export interface ObjectMeta {
  /** Unique among the objects of its kind, in its namespace. */
  readonly name?: string;
  /** Absent on cluster-scoped objects. */
  readonly namespace?: string;
  /** Unique in space and time; set by the API server. */
  readonly uid?: string;
  /** Opaque; another after every change. */
  readonly resourceVersion?: string;
  /** Counts the changes of the spec, from 1. */
  readonly generation?: number;
  /** RFC 3339 time. */
  readonly creationTimestamp?: string;
  /** RFC 3339 time. Set while the object waits for its finalizers. */
  readonly deletionTimestamp?: string;
  /** Who must have let go before the object is removed. */
  readonly finalizers?: readonly string[];
  /** What selectors match. */
  readonly labels?: Readonly<Record<string, string>>;
  /** What selectors do not match. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Objects without which this one is garbage, once all are gone. */
  readonly ownerReferences?: readonly OwnerReference[];
}

/** State of one aspect of an object, Kubernetes' `metav1.Condition`. */
export interface Condition {
  /** Name of the aspect, in CamelCase. */
  readonly type: string;
  /** Whether it holds. */
  readonly status: "True" | "False" | "Unknown";
  /** `metadata.generation` of the spec that it is about. */
  readonly observedGeneration?: number;
  /** RFC 3339 time. */
  readonly lastTransitionTime: string;
  /** Why, as a word in CamelCase for programs. */
  readonly reason: string;
  /** Why, in a sentence for people. */
  readonly message: string;
}
