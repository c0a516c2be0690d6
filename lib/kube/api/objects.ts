import type * as k8s from "@kubernetes/client-node";

/**
 * A type of `@kubernetes/client-node` as its objects are in JSON: times are strings, and names that the generator
 * escaped with an underscore (`_continue`, `_from`) are as in the API.
 */
export type Wire<T> = T extends Date ? string
  : T extends readonly (infer Item)[] ? Wire<Item>[]
  : T extends object ? {
      [K in keyof T as K extends `_${infer Name}` ? Name : K]: Wire<T[K]>;
    }
  : T;

/** Reference from an object to one that owns it (`metav1.OwnerReference`). */
export interface OwnerReference {
  /** API group and version of the owner. */
  readonly apiVersion: string;
  /** Kind of the owner. */
  readonly kind: string;
  /** Name of the owner, cluster scoped or in the same namespace. */
  readonly name: string;
  /** UID of the owner: a later object of the same name is none. */
  readonly uid: string;
  /** Whether the owner is the one that manages the object. */
  readonly controller?: boolean;
  /** Whether a foreground deletion of the owner waits for the object. */
  readonly blockOwnerDeletion?: boolean;
}

/** Annotations of an object. */
export type Annotations = Readonly<Record<string, string>>;

/** The parts of `metav1.ObjectMeta` that this library reads; every object's `metadata` fits it. */
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
  /** RFC 3339 time; set while the object waits for its finalizers. */
  readonly deletionTimestamp?: string;
  /** Must be empty before the object is removed. */
  readonly finalizers?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Annotations;
  readonly ownerReferences?: readonly OwnerReference[];
  /** Who owns which fields; for the server. */
  readonly managedFields?: readonly unknown[];
}

/** A Kubernetes object of any kind. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

/** Which object an Event is about (`core/v1 ObjectReference`). */
export interface ObjectReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
}

export interface V1Pod extends Wire<k8s.V1Pod> {}
export interface V1Node extends Wire<k8s.V1Node> {}
export interface V1Namespace extends Wire<k8s.V1Namespace> {}
/** A ServiceCIDR as on the wire. */
export interface V1ServiceCidr extends Wire<k8s.V1ServiceCIDR> {}
export interface V1Service extends Wire<k8s.V1Service> {}
/** A ServiceAccount as on the wire. */
export interface V1ServiceAccount extends Wire<k8s.V1ServiceAccount> {}
/** A ConfigMap as on the wire. */
export interface V1ConfigMap extends Wire<k8s.V1ConfigMap> {}
/** An Event of the core group as on the wire. */
export interface CoreV1Event extends Wire<k8s.CoreV1Event> {}
export interface V1Lease extends Wire<k8s.V1Lease> {}
export interface V1Deployment extends Wire<k8s.V1Deployment> {}
/** A DaemonSet as on the wire. */
export interface V1DaemonSet extends Wire<k8s.V1DaemonSet> {}
/** A PodDisruptionBudget as on the wire. */
export interface V1PodDisruptionBudget
  extends Wire<k8s.V1PodDisruptionBudget> {}
/** A ClusterRoleBinding as on the wire. */
export interface V1ClusterRoleBinding extends Wire<k8s.V1ClusterRoleBinding> {}
/** A RoleBinding as on the wire. */
export interface V1RoleBinding extends Wire<k8s.V1RoleBinding> {}
/** An EndpointSlice as on the wire. */
export interface V1EndpointSlice extends Wire<k8s.V1EndpointSlice> {}
/** A SubjectAccessReview as on the wire. */
export interface V1SubjectAccessReview
  extends Wire<k8s.V1SubjectAccessReview> {}
/** A TokenReview as on the wire. */
export interface V1TokenReview extends Wire<k8s.V1TokenReview> {}
/** A request for a ServiceAccount's token as on the wire. */
export interface V1TokenRequest
  extends Wire<k8s.AuthenticationV1TokenRequest> {}
/** A SelfSubjectReview as on the wire. */
export interface V1SelfSubjectReview extends Wire<k8s.V1SelfSubjectReview> {}
