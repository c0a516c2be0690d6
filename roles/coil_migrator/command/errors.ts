import { EtcdError } from "../../../lib/etcd/mod.ts";
import { KubeApiError, KubeUnreachableError } from "../../../lib/kube/mod.ts";

/** Exit codes of the commands. */
export const EXIT = {
  ok: 0,
  /** It could not be carried out. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
  /** What could be done is done, and something is left that needs a decision. */
  unfinished: 3,
} as const;

/** A command cannot be carried out. Its message is for the admin, as it is. */
export class MigrateError extends Error {
  override readonly name = "MigrateError";
}

/** Says what went wrong and what to do. Undefined for what is no fault of the admin's or of the cluster's. */
export function explain(error: unknown): string | undefined {
  if (error instanceof MigrateError) return error.message;
  if (error instanceof EtcdError) return withAdvice(error, etcdAdvice(error));
  if (error instanceof KubeUnreachableError) {
    return withAdvice(
      error,
      "Is the API server running, and is this its kubeconfig? See --kubeconfig, --context and $KUBECONFIG. What was done is kept: run the same command again.",
    );
  }
  if (error instanceof KubeApiError) {
    return withAdvice(error, kubeAdvice(error));
  }
  return undefined;
}

function withAdvice(error: Error, advice: string | undefined): string {
  return advice === undefined ? error.message : `${error.message}\n${advice}`;
}

function etcdAdvice({ kind, certificate }: EtcdError): string | undefined {
  switch (certificate) {
    case "server":
      return "etcd's certificate is not trusted: --etcd-tls-ca names the file with the authority that made it, and --etcd-endpoints a name or address that the certificate is for.";
    case "client":
      return "etcd refuses the certificate of --etcd-tls-cert: it must be by an authority that etcd trusts (its --trusted-ca-file), for clients, and still valid. Coil v1 has one that is.";
    case "no client":
      return "etcd wants a certificate: --etcd-tls-cert and --etcd-tls-key.";
  }
  switch (kind) {
    case "unreachable":
      return "Is this the etcd of Coil v1? See --etcd-endpoints, and for https --etcd-tls-ca, --etcd-tls-cert and --etcd-tls-key; --etcd-timeout gives it more time.";
    case "denied":
      return "etcd knows users by the name in their certificate, --etcd-tls-cert, or by --etcd-username and --etcd-password-file; the user needs the right to read --etcd-prefix.";
    default:
      return undefined;
  }
}

function kubeAdvice(error: KubeApiError): string | undefined {
  if (error.isForbidden) {
    return "The migration needs the ClusterRole cluster-admin, or the rights that docs/roles/coil-migrator.md lists.";
  }
  if (error.isUnauthorized) {
    return "The credentials of the kubeconfig are not valid, or not any more.";
  }
  return undefined;
}
