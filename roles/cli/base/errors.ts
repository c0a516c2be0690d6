import { EvictionError } from "../../../lib/eviction/mod.ts";
import { KubeApiError, KubeUnreachableError } from "../../../lib/kube/mod.ts";

/** Exit codes of the commands. */
export const EXIT = {
  ok: 0,
  /** The command could not be carried out. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The command did what it should, and found problems. */
  problems: 3,
} as const;

/** A command cannot be carried out. Its message is for the admin, as it is. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

/** Says what went wrong and, where it is known, what to do. Undefined for an error in Coil itself. */
export function explain(error: unknown): string | undefined {
  if (error instanceof CommandError || error instanceof EvictionError) {
    return error.message;
  }
  if (error instanceof KubeUnreachableError) {
    return `${error.message}\nIs the API server running, and is this its kubeconfig? See --kubeconfig, --context and $KUBECONFIG.`;
  }
  if (error instanceof KubeApiError) {
    const advice = adviceOn(error);
    return advice === undefined ? error.message : `${error.message}\n${advice}`;
  }
  return undefined;
}

function adviceOn(error: KubeApiError): string | undefined {
  if (error.isNotFound) {
    return "Are Coil's resources installed? Install them: kubectl apply -f crds/";
  }
  if (error.isForbidden) {
    return "You need the ClusterRole view, which deploy/base/viewer_rbac.yaml extends to Coil's resources, and a ClusterRoleBinding.";
  }
  if (error.isUnauthorized) {
    return "The credentials of the kubeconfig are invalid or expired.";
  }
  return undefined;
}
