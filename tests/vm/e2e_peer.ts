// Gateways of upstream's Coil v2 (Go) in the end-to-end tests.
import type { VmAccess } from "./e2e_access.ts";

/** Variable that names the directory of upstream's programs. */
export const PEER_VARIABLE = "COIL_VM_PEER";

/** Directory of upstream's `coil-egress`. */
export function peerBinDir(): string {
  const dir = Deno.env.get(PEER_VARIABLE);
  if (dir !== undefined) return dir;
  throw new Error(`Cannot run upstream's Coil: ${PEER_VARIABLE} is not set`);
}

const RBAC = "/apis/rbac.authorization.k8s.io/v1";

/** Lets upstream's gateways watch pods, as ours did before there were EgressClientSlices, until it is disposed of. */
export async function allowPeerGateways(
  { admin }: VmAccess,
  namespace: string,
): Promise<AsyncDisposable> {
  const name = "coil-egress-pods";
  const metadata = { name };
  const roleRef = {
    apiGroup: "rbac.authorization.k8s.io",
    kind: "ClusterRole",
    name,
  };
  await admin.request("POST", `${RBAC}/clusterroles`, {
    metadata,
    rules: [
      { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] },
    ],
  });
  await admin.request("POST", `${RBAC}/clusterrolebindings`, {
    metadata,
    roleRef,
    subjects: [{ kind: "ServiceAccount", namespace, name: "coil-egress" }],
  });
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      for (const kind of ["clusterrolebindings", "clusterroles"]) {
        await admin.request("DELETE", `${RBAC}/${kind}/${name}`);
      }
    },
  };
}
