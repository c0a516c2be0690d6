import { CommandError } from "../../../lib/command/mod.ts";
import { EvictionError } from "../../../lib/eviction/mod.ts";
import { EtcdError } from "../../../lib/etcd/mod.ts";
import { explainKubeError } from "../../../lib/kube/mod.ts";

/** Says what went wrong and what to do. Undefined for an error in Coil itself. */
export function explain(error: unknown): string | undefined {
  if (error instanceof CommandError || error instanceof EvictionError) {
    return error.message;
  }
  if (error instanceof EtcdError) {
    const advice = etcdAdvice(error);
    return advice === undefined ? error.message : `${error.message}\n${advice}`;
  }
  return explainKubeError(error, {
    isForbidden:
      "The migration needs the ClusterRole cluster-admin, or the permissions that docs/roles/coil-migrator.md lists.",
    isUnreachable: "Finished steps are kept: run the same command again.",
  });
}

function etcdAdvice({ kind, certificate }: EtcdError): string | undefined {
  switch (certificate) {
    case "server":
      return "etcd's certificate is not trusted: set --etcd-tls-ca to the file with its CA, and use a name or address of the certificate in --etcd-endpoints.";
    case "client":
      return "etcd rejects the certificate of --etcd-tls-cert: it must be a valid client certificate from a CA that etcd trusts (its --trusted-ca-file). Coil v1 has one.";
    case "no client":
      return "etcd requires a client certificate: set --etcd-tls-cert and --etcd-tls-key.";
  }
  switch (kind) {
    case "unreachable":
      return "Is this the etcd of Coil v1? Check --etcd-endpoints, for https --etcd-tls-ca, --etcd-tls-cert and --etcd-tls-key, and --etcd-timeout.";
    case "denied":
      return "etcd knows users by the name in their certificate, --etcd-tls-cert, or by --etcd-username and --etcd-password-file; the user needs the right to read --etcd-prefix.";
    default:
      return undefined;
  }
}
