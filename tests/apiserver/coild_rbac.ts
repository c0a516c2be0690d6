/** What a node daemon may do: the account of spec §18.2 and no more. */
const READ = ["get", "list", "watch"];

const RULES = [
  { apiGroups: [""], resources: ["namespaces", "pods", "nodes"], verbs: READ },
  {
    apiGroups: ["coil.cybozu.com"],
    resources: ["addresspools"],
    verbs: READ,
  },
  {
    apiGroups: ["coil.cybozu.com"],
    resources: ["addressblocks"],
    verbs: [...READ, "patch", "update", "delete"],
  },
  {
    apiGroups: ["coil.cybozu.com"],
    resources: ["blockrequests"],
    verbs: [...READ, "create", "delete"],
  },
  { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
  {
    apiGroups: ["events.k8s.io"],
    resources: ["events"],
    verbs: ["create", "patch"],
  },
];

/** Service account, role and binding of coild. */
export const COILD_RBAC: readonly unknown[] = [
  {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name: "coild", namespace: "kube-system" },
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name: "coild" },
    rules: RULES,
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "coild" },
    roleRef: {
      apiGroup: "rbac.authorization.k8s.io",
      kind: "ClusterRole",
      name: "coild",
    },
    subjects: [{
      kind: "ServiceAccount",
      name: "coild",
      namespace: "kube-system",
    }],
  },
];
