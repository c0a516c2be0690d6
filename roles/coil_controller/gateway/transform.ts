import { createHash } from "node:crypto";
import type { Egress } from "../../../lib/api/mod.ts";
import type {
  KubeObject,
  V1ClusterRoleBinding,
  V1Deployment,
} from "../../../lib/kube/mod.ts";
import { hasFormerManager } from "./takeover.ts";

/** An object that the controller applies, of which little is kept. */
export interface OwnedObject extends KubeObject {
  /** Digest of what applying can change; see {@linkcode fingerprintOf}. */
  readonly fingerprint?: string;
  /** Upstream's controller owns fields of it. */
  readonly isFormer?: boolean;
}

/** A Deployment, of which its status is kept, and the labels of its pods. */
export interface OwnedDeployment extends V1Deployment {
  /** As of an {@linkcode OwnedObject}, like the next. */
  readonly fingerprint?: string;
  readonly isFormer?: boolean;
  readonly podLabels?: Readonly<Record<string, string>>;
}

/** Digest of the parts of an object that applying can change, no matter who changed them. Versions and status do not count. */
export function fingerprintOf(object: KubeObject): string {
  const { labels, ownerReferences } = object.metadata ?? {};
  const parts: Record<string, unknown> = { labels, ownerReferences };
  for (const [name, value] of Object.entries(object)) {
    if (["spec", "roleRef", "subjects"].includes(name)) parts[name] = value;
  }
  return digestOf(parts);
}

/** Digest of a value whose keys come in the same order each time, as those from the API server do. */
export function digestOf(value: unknown): string {
  return createHash("sha1").update(JSON.stringify(value)).digest("base64");
}

/** Keeps the identity of an object, its labels, its owners and its fingerprint. */
export function transformOwned(object: OwnedObject): OwnedObject {
  return {
    metadata: withoutBulk(object.metadata ?? {}),
    fingerprint: fingerprintOf(object),
    isFormer: hasFormerManager(object),
  };
}

/** Keeps of a Deployment what its Egress' status is made of, too. */
export function transformDeployment(object: OwnedDeployment): OwnedDeployment {
  const { metadata, spec, status } = object;
  return {
    metadata: withoutBulk(metadata ?? {}),
    fingerprint: fingerprintOf(object),
    isFormer: hasFormerManager(object),
    podLabels: spec?.template.metadata?.labels ?? {},
    ...(status === undefined ? {} : { status }),
  };
}

/** Keeps of a ClusterRoleBinding its subjects. */
export function transformBinding(
  { metadata, roleRef, subjects }: V1ClusterRoleBinding,
): V1ClusterRoleBinding {
  return {
    metadata: withoutBulk(metadata ?? {}),
    roleRef,
    ...(subjects === undefined ? {} : { subjects }),
  };
}

/** Keeps the identity of a pod of an Egress. */
export function transformPod({ metadata }: KubeObject): KubeObject {
  return { metadata: withoutBulk(metadata ?? {}) };
}

/** Keeps all of an Egress but annotations and `managedFields`. */
export function transformEgress(egress: Egress): Egress {
  const { apiVersion, kind, metadata, spec, status } = egress;
  return {
    apiVersion,
    kind,
    metadata: withoutBulk(metadata),
    spec,
    ...(status === undefined ? {} : { status }),
  };
}

/** Annotations and `managedFields` are often most of an object. */
interface Bulk {
  readonly annotations?: unknown;
  readonly managedFields?: unknown;
}

function withoutBulk<M extends Bulk>(metadata: M): Omit<M, keyof Bulk> {
  const { annotations: _a, managedFields: _m, ...kept } = metadata;
  return kept;
}
