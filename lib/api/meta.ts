/** Reference from an object to one that owns it. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** The fields of Kubernetes' ObjectMeta that Coil reads or writes, as on the wire. */
export interface ObjectMeta {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  /** RFC 3339 time. */
  readonly creationTimestamp?: string;
  /** RFC 3339 time. Set while the object waits for its finalizers. */
  readonly deletionTimestamp?: string;
  readonly finalizers?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
}

/** State of one aspect of an object, Kubernetes' `metav1.Condition`. */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly observedGeneration?: number;
  /** RFC 3339 time. */
  readonly lastTransitionTime: string;
  readonly reason: string;
  readonly message: string;
}
