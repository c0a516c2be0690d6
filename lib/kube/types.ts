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

/** An object that owns another (`metav1.OwnerReference`). */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** The parts of `metav1.ObjectMeta` that this library reads; every object's `metadata` fits it. */
export interface ObjectMeta {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  /** RFC 3339 time. */
  readonly creationTimestamp?: string;
  /** RFC 3339 time; set while the object waits for its finalizers. */
  readonly deletionTimestamp?: string;
  readonly finalizers?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
}

/** What every Kubernetes object is. */
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
  readonly resourceVersion?: string;
  readonly fieldPath?: string;
}

/** A Pod as on the wire. */
export type V1Pod = Wire<k8s.V1Pod>;
/** A Node as on the wire. */
export type V1Node = Wire<k8s.V1Node>;
/** A Namespace as on the wire. */
export type V1Namespace = Wire<k8s.V1Namespace>;
/** A Service as on the wire. */
export type V1Service = Wire<k8s.V1Service>;
/** A ServiceAccount as on the wire. */
export type V1ServiceAccount = Wire<k8s.V1ServiceAccount>;
/** A ConfigMap as on the wire. */
export type V1ConfigMap = Wire<k8s.V1ConfigMap>;
/** A Secret as on the wire. */
export type V1Secret = Wire<k8s.V1Secret>;
/** An Event of the core group as on the wire. */
export type CoreV1Event = Wire<k8s.CoreV1Event>;
/** A Lease as on the wire. */
export type V1Lease = Wire<k8s.V1Lease>;
/** A Deployment as on the wire. */
export type V1Deployment = Wire<k8s.V1Deployment>;
/** A DaemonSet as on the wire. */
export type V1DaemonSet = Wire<k8s.V1DaemonSet>;
/** A PodDisruptionBudget as on the wire. */
export type V1PodDisruptionBudget = Wire<k8s.V1PodDisruptionBudget>;
/** A ClusterRoleBinding as on the wire. */
export type V1ClusterRoleBinding = Wire<k8s.V1ClusterRoleBinding>;
/** A RoleBinding as on the wire. */
export type V1RoleBinding = Wire<k8s.V1RoleBinding>;
/** A CustomResourceDefinition as on the wire. */
export type V1CustomResourceDefinition = Wire<k8s.V1CustomResourceDefinition>;
/** The template of a Deployment's pods as on the wire. */
export type V1PodTemplateSpec = Wire<k8s.V1PodTemplateSpec>;
