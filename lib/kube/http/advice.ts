import { KubeApiError, KubeUnreachableError } from "./errors.ts";

/** What a command's user can do where it depends on the command. */
export interface KubeAdvice {
  /** The user lacks permissions. */
  readonly isForbidden: string;
  /** An object, or its resource, is not in the cluster. */
  readonly isNotFound?: string;
  /** Follows what can always be done about an API server that does not answer. */
  readonly isUnreachable?: string;
}

/** Says what went wrong between a command and the API server, and where it is known, what to do. Undefined for other errors. */
export function explainKubeError(
  error: unknown,
  advice: KubeAdvice,
): string | undefined {
  const isKubes = error instanceof KubeApiError ||
    error instanceof KubeUnreachableError;
  if (!isKubes) return undefined;
  const what = adviceOn(error, advice);
  return what === undefined ? error.message : `${error.message}\n${what}`;
}

function adviceOn(
  error: KubeApiError | KubeUnreachableError,
  { isForbidden, isNotFound, isUnreachable }: KubeAdvice,
): string | undefined {
  if (error instanceof KubeUnreachableError) {
    const always =
      "Is the API server running, and is this its kubeconfig? See --kubeconfig, --context and $KUBECONFIG.";
    return isUnreachable === undefined ? always : `${always} ${isUnreachable}`;
  }
  if (error.isNotFound) return isNotFound;
  if (error.isForbidden) return isForbidden;
  if (error.isUnauthorized) {
    return "The credentials of the kubeconfig are invalid or expired.";
  }
  return undefined;
}
