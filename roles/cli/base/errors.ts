import { CommandError } from "../../../lib/command/mod.ts";
import { EvictionError } from "../../../lib/eviction/mod.ts";
import { explainKubeError } from "../../../lib/kube/mod.ts";

/** Says what went wrong and, where it is known, what to do. Undefined for an error in Coil itself. */
export function explain(error: unknown): string | undefined {
  if (error instanceof CommandError || error instanceof EvictionError) {
    return error.message;
  }
  return explainKubeError(error, {
    isNotFound:
      "Are Coil's resources installed? Install them: kubectl apply -f crds/",
    isForbidden:
      "You need the ClusterRole view, which deploy/base/viewer_rbac.yaml extends to Coil's resources, and a ClusterRoleBinding.",
  });
}
