import type {
  CoreV1Event,
  KubeObject,
  ObjectReference,
  V1ClusterRoleBinding,
  V1ConfigMap,
  V1DaemonSet,
  V1Deployment,
  V1EndpointSlice,
  V1Lease,
  V1Namespace,
  V1Node,
  V1Pod,
  V1PodDisruptionBudget,
  V1RoleBinding,
  V1SelfSubjectReview,
  V1Service,
  V1ServiceAccount,
  V1ServiceCidr,
  V1SubjectAccessReview,
  V1TokenRequest,
  V1TokenReview,
} from "./objects.ts";

/** Where the API server serves the objects of one kind, and which type they have. */
export interface ResourceType<T> {
  /** API group; empty for the core group. */
  readonly group: string;
  /** API version, e.g. "v1". */
  readonly version: string;
  /** Name in paths. */
  readonly plural: string;
  /** Name in objects. */
  readonly kind: string;
  /** Whether the objects are in namespaces. */
  readonly namespaced: boolean;
  /** Never set; it ties the constant to the type of its objects. */
  readonly objectType?: T;
}

/** Which object or collection a path is for. */
export interface PathParts {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly subresource?: string | undefined;
}

/**
 * Whether a text can be part of a path, as each name of an object is (IsValidPathSegmentName of apimachinery): the API
 * server takes paths apart after decoding them, so others would lead elsewhere.
 */
export function isPathSegment(text: string): boolean {
  return text !== "" && text !== "." && text !== ".." && !/[/%]/.test(text);
}

/**
 * Builds the path of a collection or an object, e.g. `/apis/apps/v1/namespaces/a/deployments/b/scale`.
 * @throws {TypeError} when a cluster-scoped kind gets a namespace, or a name of a namespaced kind has none, or one of
 * the two is none that an object can have.
 */
export function resourcePath<T>(
  type: ResourceType<T>,
  parts: PathParts = {},
): string {
  const { namespace, name, subresource } = parts;
  if (!type.namespaced && namespace !== undefined) {
    throw new TypeError(
      `Cannot address ${type.plural} in namespace "${namespace}": they have none`,
    );
  }
  if (type.namespaced && name !== undefined && namespace === undefined) {
    throw new TypeError(`Cannot address ${type.kind} "${name}": no namespace`);
  }
  for (const text of [namespace, name]) {
    if (text === undefined || isPathSegment(text)) continue;
    throw new TypeError(
      `Cannot address ${type.kind}: no object can be called "${text}"`,
    );
  }
  const segments = type.group === ""
    ? ["api", type.version]
    : ["apis", type.group, type.version];
  if (namespace !== undefined) segments.push("namespaces", namespace);
  segments.push(type.plural);
  if (name !== undefined) segments.push(name);
  if (subresource !== undefined) segments.push(...subresource.split("/"));
  return "/" + segments.map(encodeURIComponent).join("/");
}

/** Value of `apiVersion` of a kind's objects. */
export function apiVersionOf<T>(type: ResourceType<T>): string {
  return type.group === "" ? type.version : `${type.group}/${type.version}`;
}

/** What an Event about an object names. */
export function referenceTo<T extends KubeObject>(
  type: ResourceType<T>,
  { metadata: { name = "", namespace, uid = "" } = {} }: T,
): ObjectReference {
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    name,
    uid,
    ...namespace !== undefined && { namespace },
  };
}

/** Key of an object in a {@link Store}: `name`, or `namespace/name`. */
export function keyOf(object: KubeObject): string {
  const { name = "", namespace } = object.metadata ?? {};
  return namespace === undefined || namespace === ""
    ? name
    : `${namespace}/${name}`;
}

/** Takes a key of {@link keyOf} apart. */
export function splitKey(key: string): { namespace?: string; name: string } {
  const slash = key.indexOf("/");
  if (slash < 0) return { name: key };
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

function resource<T>(
  groupVersion: string,
  plural: string,
  options: { kind: string; namespaced: boolean },
): ResourceType<T> {
  const [version = "", group = ""] = groupVersion.split("/").reverse();
  return { group, version, plural, ...options };
}

export const PODS: ResourceType<V1Pod> = resource("v1", "pods", {
  kind: "Pod",
  namespaced: true,
});
export const NODES: ResourceType<V1Node> = resource("v1", "nodes", {
  kind: "Node",
  namespaced: false,
});
export const NAMESPACES: ResourceType<V1Namespace> = resource(
  "v1",
  "namespaces",
  { kind: "Namespace", namespaced: false },
);
export const SERVICES: ResourceType<V1Service> = resource("v1", "services", {
  kind: "Service",
  namespaced: true,
});
/** ServiceCIDRs, of Kubernetes 1.33 and newer. */
export const SERVICE_CIDRS: ResourceType<V1ServiceCidr> = resource(
  "networking.k8s.io/v1",
  "servicecidrs",
  { kind: "ServiceCIDR", namespaced: false },
);
/** ServiceAccounts. */
export const SERVICE_ACCOUNTS: ResourceType<V1ServiceAccount> = resource(
  "v1",
  "serviceaccounts",
  { kind: "ServiceAccount", namespaced: true },
);
/** ConfigMaps. */
export const CONFIG_MAPS: ResourceType<V1ConfigMap> = resource(
  "v1",
  "configmaps",
  { kind: "ConfigMap", namespaced: true },
);
/** Events of the core group. */
export const EVENTS: ResourceType<CoreV1Event> = resource("v1", "events", {
  kind: "Event",
  namespaced: true,
});
export const LEASES: ResourceType<V1Lease> = resource(
  "coordination.k8s.io/v1",
  "leases",
  { kind: "Lease", namespaced: true },
);
export const DEPLOYMENTS: ResourceType<V1Deployment> = resource(
  "apps/v1",
  "deployments",
  { kind: "Deployment", namespaced: true },
);
/** DaemonSets. */
export const DAEMON_SETS: ResourceType<V1DaemonSet> = resource(
  "apps/v1",
  "daemonsets",
  { kind: "DaemonSet", namespaced: true },
);
/** PodDisruptionBudgets. */
export const POD_DISRUPTION_BUDGETS: ResourceType<V1PodDisruptionBudget> =
  resource("policy/v1", "poddisruptionbudgets", {
    kind: "PodDisruptionBudget",
    namespaced: true,
  });
/** ClusterRoleBindings. */
export const CLUSTER_ROLE_BINDINGS: ResourceType<V1ClusterRoleBinding> =
  resource("rbac.authorization.k8s.io/v1", "clusterrolebindings", {
    kind: "ClusterRoleBinding",
    namespaced: false,
  });
/** RoleBindings. */
export const ROLE_BINDINGS: ResourceType<V1RoleBinding> = resource(
  "rbac.authorization.k8s.io/v1",
  "rolebindings",
  { kind: "RoleBinding", namespaced: true },
);
/** EndpointSlices. */
export const ENDPOINT_SLICES: ResourceType<V1EndpointSlice> = resource(
  "discovery.k8s.io/v1",
  "endpointslices",
  { kind: "EndpointSlice", namespaced: true },
);
/** SubjectAccessReviews: created, answered in the same call, never stored. */
export const SUBJECT_ACCESS_REVIEWS: ResourceType<V1SubjectAccessReview> =
  resource(
    "authorization.k8s.io/v1",
    "subjectaccessreviews",
    { kind: "SubjectAccessReview", namespaced: false },
  );
/** TokenReviews: created, answered in the same call, never stored. */
export const TOKEN_REVIEWS: ResourceType<V1TokenReview> = resource(
  "authentication.k8s.io/v1",
  "tokenreviews",
  { kind: "TokenReview", namespaced: false },
);
/** Requests for a ServiceAccount's token: created below the ServiceAccount, answered in the same call, never stored. */
export const TOKEN_REQUESTS: ResourceType<V1TokenRequest> = resource(
  "v1",
  "serviceaccounts",
  { kind: "TokenRequest", namespaced: true },
);
/** SelfSubjectReviews: created, answered in the same call, never stored; since Kubernetes 1.28. */
export const SELF_SUBJECT_REVIEWS: ResourceType<V1SelfSubjectReview> = resource(
  "authentication.k8s.io/v1",
  "selfsubjectreviews",
  { kind: "SelfSubjectReview", namespaced: false },
);
