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

/** A kind whose objects are in namespaces. `path` has group, version and plural: `apps/v1/deployments`, `v1/pods`. */
export function namespaced<T>(path: string, kind: string): ResourceType<T> {
  return { ...clusterWide<T>(path, kind), namespaced: true };
}

/** The same, of a kind whose objects are in no namespace. */
export function clusterWide<T>(path: string, kind: string): ResourceType<T> {
  const [plural = "", version = "", group = ""] = path.split("/").reverse();
  return { group, version, plural, kind, namespaced: false };
}

export const PODS: ResourceType<V1Pod> = namespaced("v1/pods", "Pod");
export const NODES: ResourceType<V1Node> = clusterWide("v1/nodes", "Node");
export const NAMESPACES: ResourceType<V1Namespace> = clusterWide(
  "v1/namespaces",
  "Namespace",
);
export const SERVICES: ResourceType<V1Service> = namespaced(
  "v1/services",
  "Service",
);
/** ServiceCIDRs, of Kubernetes 1.33 and newer. */
export const SERVICE_CIDRS: ResourceType<V1ServiceCidr> = clusterWide(
  "networking.k8s.io/v1/servicecidrs",
  "ServiceCIDR",
);
/** ServiceAccounts. */
export const SERVICE_ACCOUNTS: ResourceType<V1ServiceAccount> = namespaced(
  "v1/serviceaccounts",
  "ServiceAccount",
);
/** ConfigMaps. */
export const CONFIG_MAPS: ResourceType<V1ConfigMap> = namespaced(
  "v1/configmaps",
  "ConfigMap",
);
/** Events of the core group. */
export const EVENTS: ResourceType<CoreV1Event> = namespaced(
  "v1/events",
  "Event",
);
export const LEASES: ResourceType<V1Lease> = namespaced(
  "coordination.k8s.io/v1/leases",
  "Lease",
);
export const DEPLOYMENTS: ResourceType<V1Deployment> = namespaced(
  "apps/v1/deployments",
  "Deployment",
);
/** DaemonSets. */
export const DAEMON_SETS: ResourceType<V1DaemonSet> = namespaced(
  "apps/v1/daemonsets",
  "DaemonSet",
);
/** PodDisruptionBudgets. */
export const POD_DISRUPTION_BUDGETS: ResourceType<V1PodDisruptionBudget> =
  namespaced("policy/v1/poddisruptionbudgets", "PodDisruptionBudget");
/** ClusterRoleBindings. */
export const CLUSTER_ROLE_BINDINGS: ResourceType<V1ClusterRoleBinding> =
  clusterWide(
    "rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ClusterRoleBinding",
  );
/** RoleBindings. */
export const ROLE_BINDINGS: ResourceType<V1RoleBinding> = namespaced(
  "rbac.authorization.k8s.io/v1/rolebindings",
  "RoleBinding",
);
/** EndpointSlices. */
export const ENDPOINT_SLICES: ResourceType<V1EndpointSlice> = namespaced(
  "discovery.k8s.io/v1/endpointslices",
  "EndpointSlice",
);
/** SubjectAccessReviews: created, answered in the same call, never stored. */
export const SUBJECT_ACCESS_REVIEWS: ResourceType<V1SubjectAccessReview> =
  clusterWide(
    "authorization.k8s.io/v1/subjectaccessreviews",
    "SubjectAccessReview",
  );
/** TokenReviews: created, answered in the same call, never stored. */
export const TOKEN_REVIEWS: ResourceType<V1TokenReview> = clusterWide(
  "authentication.k8s.io/v1/tokenreviews",
  "TokenReview",
);
/** Requests for a ServiceAccount's token: created below the ServiceAccount, answered in the same call, never stored. */
export const TOKEN_REQUESTS: ResourceType<V1TokenRequest> = namespaced(
  "v1/serviceaccounts",
  "TokenRequest",
);
/** SelfSubjectReviews: created, answered in the same call, never stored; since Kubernetes 1.28. */
export const SELF_SUBJECT_REVIEWS: ResourceType<V1SelfSubjectReview> =
  clusterWide(
    "authentication.k8s.io/v1/selfsubjectreviews",
    "SelfSubjectReview",
  );
