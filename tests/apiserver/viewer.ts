import type { ControlPlane } from "../lab/mod.ts";
import { untilAllowed } from "./access.ts";

/** Returns the kubeconfig of a user who has these ClusterRoles of `deploy/base`, which is there, and may list pods. */
export async function addViewer(
  plane: ControlPlane,
  roles: readonly string[],
): Promise<string> {
  const role = ["create", "clusterrole", "pod-viewer"];
  await plane.kubectl(...role, "--verb=list", "--resource=pods");
  for (const name of [...roles, "pod-viewer"]) {
    const bind = ["create", "clusterrolebinding", name];
    await plane.kubectl(...bind, `--clusterrole=${name}`, "--user=viewer");
  }
  const access = { user: "viewer", verb: "list", resource: "pods" };
  await untilAllowed(plane, access);
  return await plane.kubeconfigFor({ user: "viewer" });
}
