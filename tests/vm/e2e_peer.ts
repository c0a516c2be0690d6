// Gateways and nodes of upstream's Coil v2 (Go) in the end-to-end tests.
import type { VmAccess } from "./e2e_access.ts";

/** Variable that names the directory of upstream's programs. */
export const PEER_VARIABLE = "COIL_VM_PEER";

/** Directory of upstream's programs. */
export function peerBinDir(): string {
  const dir = Deno.env.get(PEER_VARIABLE);
  if (dir !== undefined) return dir;
  throw new Error(`Cannot run upstream's Coil: ${PEER_VARIABLE} is not set`);
}

const RBAC = "/apis/rbac.authorization.k8s.io/v1";

/** Lets upstream's gateways watch pods, as ours did before there were EgressClientSlices, until it is disposed of. */
export async function allowPeerGateways(
  access: VmAccess,
  namespace: string,
): Promise<AsyncDisposable> {
  return await allow(access, {
    name: "coil-egress-pods",
    account: { namespace, name: "coil-egress" },
    rules: [{ apiGroups: [""], resources: ["pods"], verbs: WATCH }],
  });
}

/** Gives coild the rights that upstream's needs besides, as the overlay compat does, until it is disposed of. */
export async function allowPeerNodes(
  access: VmAccess,
): Promise<AsyncDisposable> {
  const blocks = ["addressblocks", "blockrequests", "blockrequests/status"];
  return await allow(access, {
    name: "coild-peer",
    account: { namespace: "kube-system", name: "coild" },
    rules: [
      {
        apiGroups: [""],
        resources: ["namespaces", "nodes", "pods", "services"],
        verbs: WATCH,
      },
      {
        apiGroups: ["coil.cybozu.com"],
        resources: [...blocks, "egresses"],
        verbs: [...WATCH, "create", "update", "patch", "delete"],
      },
    ],
  });
}

const WATCH = ["get", "list", "watch"];

async function allow(
  { admin }: VmAccess,
  { name, account, rules }: {
    readonly name: string;
    readonly account: { readonly namespace: string; readonly name: string };
    readonly rules: readonly unknown[];
  },
): Promise<AsyncDisposable> {
  const metadata = { name };
  const roleRef = {
    apiGroup: "rbac.authorization.k8s.io",
    kind: "ClusterRole",
    name,
  };
  await admin.request("POST", `${RBAC}/clusterroles`, { metadata, rules });
  await admin.request("POST", `${RBAC}/clusterrolebindings`, {
    metadata,
    roleRef,
    subjects: [{ kind: "ServiceAccount", ...account }],
  });
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      for (const kind of ["clusterrolebindings", "clusterroles"]) {
        await admin.request("DELETE", `${RBAC}/${kind}/${name}`);
      }
    },
  };
}
