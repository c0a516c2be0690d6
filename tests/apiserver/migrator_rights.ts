/** A user with the rights that docs/roles/coil-migrator.md lists, and no others. */
import type { ControlPlane } from "../lab/mod.ts";
import { untilAllowed } from "./access.ts";

const USER = "migrator";
const RBAC = "rbac.authorization.k8s.io";
const V1_NAMES = ["coil-node", "coil-controllers", "coil-controller"];

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

function rule(
  group: string,
  resources: string,
  verbs: string,
  names?: readonly string[],
): Rule {
  return {
    apiGroups: [group],
    resources: resources.split(" "),
    verbs: verbs.split(" "),
    ...(names === undefined ? {} : { resourceNames: names }),
  };
}

/** In all namespaces. */
const CLUSTER_RULES: readonly Rule[] = [
  rule("", "nodes namespaces pods events replicationcontrollers", "get list"),
  rule("apps", "replicasets statefulsets daemonsets", "get list"),
  rule("batch", "jobs", "get list"),
  rule("", "pods/eviction", "create"),
  rule("coil.cybozu.com", "addresspools", "get list"),
  rule("coil.cybozu.com", "addressblocks", "get list patch delete"),
  rule(RBAC, "clusterroles clusterrolebindings", "get delete", V1_NAMES),
];

/** In kube-system. */
const SYSTEM_RULES: readonly Rule[] = [
  rule("", "pods", "delete"),
  rule("", "configmaps", "create"),
  rule("", "configmaps", "get patch", ["coil-migration"]),
  rule("", "configmaps", "get delete", ["coil-config"]),
  rule("", "serviceaccounts", "get delete", V1_NAMES),
  rule("apps", "daemonsets deployments", "get delete", V1_NAMES),
];

/** Makes the user and returns its kubeconfig, once the rights are in force. */
export async function migratorKubeconfig(
  plane: ControlPlane,
): Promise<string> {
  const namespace = "kube-system";
  const subjects = [{ apiGroup: RBAC, kind: "User", name: USER }];
  const apiVersion = `${RBAC}/v1`;
  await plane.apply(
    {
      apiVersion,
      kind: "ClusterRole",
      metadata: { name: USER },
      rules: CLUSTER_RULES,
    },
    {
      apiVersion,
      kind: "ClusterRoleBinding",
      metadata: { name: USER },
      roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: USER },
      subjects,
    },
    {
      apiVersion,
      kind: "Role",
      metadata: { name: USER, namespace },
      rules: SYSTEM_RULES,
    },
    {
      apiVersion,
      kind: "RoleBinding",
      metadata: { name: USER, namespace },
      roleRef: { apiGroup: RBAC, kind: "Role", name: USER },
      subjects,
    },
  );
  await untilAllowed(plane, {
    user: USER,
    verb: "list",
    group: "coil.cybozu.com",
    resource: "addressblocks",
  });
  await untilAllowed(plane, {
    user: USER,
    verb: "create",
    resource: "configmaps",
    namespace,
  });
  return await plane.kubeconfigFor({ user: USER });
}
